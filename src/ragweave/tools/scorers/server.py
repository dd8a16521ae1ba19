"""Log-probabilities from a completion server that echoes its input (vLLM and the like)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers.specs import checked_score

_MARKS = str.maketrans("ĠĊĉč▁", " \n\t\r ")
"""White space as byte-level and SentencePiece vocabularies write it."""
_REFUSALS = (400, 401, 403, 404, 422)


class ServerScorer:
    """Scores continuations through `/v1/completions` with `echo` and `logprobs`.

    The server tokenises prompt and continuation as one text; a token that straddles the two counts as the
    continuation's. The end token is not scored: the interface can't ask for it. The client retries transient errors;
    those that persist are raised unchanged.

    Examples:
        >>> scorer = ServerScorer("my-model", "http://localhost:8000/v1")
        >>> scorer.score([])
        []
    """

    causal = True
    """The model continues its prompt."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        batch_size: int = 16,
        client: Any = None,
    ) -> None:
        """Name the server's model; nothing is called before the first `score`.

        Args:
            model: The model's name on the server.
            base_url: The server, such as `http://localhost:8000/v1`; None: OPENAI_BASE_URL.
            api_key: The server's key; None: OPENAI_API_KEY, or none.
            batch_size: Texts in a request.
            client: An `openai.OpenAI` to use instead of a new one.

        Raises:
            UsageError: `batch_size` is below 1.
        """
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {batch_size}")
        self.model, self.batch_size, self.base_url = model, batch_size, base_url
        self._api_key, self._given = api_key, client

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: The openai package is not installed.
            ModelError: The server refuses the request, returns no log-probabilities of its input, or returns tokens of
                which it can't be said where the continuation begins.
            UsageError: A prompt is empty: a server gives the first token of a text no probability.
        """
        wanted = [at for at, (_, continuation) in enumerate(pairs) if continuation]
        if any(not pairs[at][0] for at in wanted):
            raise UsageError("a completion server can't score after an empty prompt: give a prompt")
        scores = [0.0] * len(pairs)
        for first in range(0, len(wanted), self.batch_size):
            batch = wanted[first : first + self.batch_size]
            choices = self._complete(["".join(pairs[at]) for at in batch])
            for at, choice in zip(batch, choices, strict=True):
                scores[at] = self._sum(choice.logprobs, *pairs[at])
        return scores

    @cached_property
    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        if find_spec("openai") is None:
            raise MissingExtraError("Scoring by a server", "openai")
        import openai

        key = self._api_key or os.environ.get("OPENAI_API_KEY") or "none"
        return openai.OpenAI(base_url=self.base_url, api_key=key)

    def _complete(self, texts: list[str]) -> list[Any]:
        """Return the choices of one request in the order of `texts`."""
        completions = self._client.completions
        import openai

        try:
            reply = completions.create(
                model=self.model, prompt=texts, max_tokens=0, echo=True, logprobs=1, temperature=0
            )
        except openai.APIStatusError as error:
            if error.status_code not in _REFUSALS:
                raise
            raise ModelError(f"the server refused the scoring request for {self.model}: {error}") from error
        choices = sorted(reply.choices, key=lambda one: one.index)
        if len(choices) != len(texts):
            raise ModelError(f"the server scored only {len(choices)} of {len(texts)} texts")
        return choices

    def _sum(self, logprobs: Any, prompt: str, continuation: str) -> float:
        """Sum the log-probabilities of the tokens that reach into the continuation."""
        tokens, values = getattr(logprobs, "tokens", None), getattr(logprobs, "token_logprobs", None)
        if not tokens or not values or len(tokens) != len(values):
            raise ModelError(
                f"the server returns no log-probabilities of its input for {self.model}: scoring needs "
                "/v1/completions with echo (vLLM has it)"
            )
        text, border = prompt + continuation, len(prompt)
        reaching = _by_spelling(tokens, text, border)
        if reaching is None:
            reaching = _by_offsets(getattr(logprobs, "text_offset", None), tokens, text, border)
        chosen = values[len(values) - reaching :] if reaching else [None]
        if None in chosen:
            raise ModelError(
                f"the tokens that the server sent for {self.model} neither spell the text to score nor say where they "
                f"are in it: for {text[-60:]!r} it sent {tokens[-12:]!r}"
            )
        return checked_score(float(sum(chosen)))


def _by_spelling(tokens: Sequence[str], text: str, border: int) -> int | None:
    """Return how many of the last tokens reach beyond `border`, if they spell the text there.

    A server that decodes SentencePiece tokens one by one drops the space before a word: what is missing in front of a
    token belongs to it. An empty token is part of the next one.
    """
    for shown in (tokens, [one.translate(_MARKS) for one in tokens]):
        end = len(text)
        for count, token in enumerate(reversed(shown)):
            if token and end > border and not text.endswith(token, 0, end):
                end = len(text[:end].rstrip(" "))
            if token and end <= border:
                return count
            if not text.endswith(token, 0, end):
                break
            end -= len(token)
        else:
            if end == 0:
                return len(tokens)
    return None


def _by_offsets(offsets: Sequence[int] | None, tokens: Sequence[str], text: str, border: int) -> int | None:
    """Return the same by the tokens' places in the text; None if they only add up the tokens' lengths."""
    lengths = list(accumulate(map(len, tokens[:-1]), initial=0))
    if offsets is None or len(offsets) != len(tokens) or list(offsets) == lengths:
        return None
    if offsets[0] != 0 or offsets[-1] > len(text) or list(offsets) != sorted(offsets):
        return None
    ends = [*offsets[1:], len(text)]
    return sum(start >= border or end > border for start, end in zip(offsets, ends, strict=True))
