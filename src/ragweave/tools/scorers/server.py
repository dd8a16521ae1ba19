"""Log-probabilities from a completion server that echoes its input (vLLM and the like)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from glob import escape
from itertools import accumulate
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers.specs import checked_score


class ServerScorer:
    """Scores continuations through `/v1/completions` with `echo` and `logprobs`.

    The server tokenises prompt and continuation as one text; a token that straddles the two
    counts as the continuation's. Which tokens are the continuation's is read from the tokens
    themselves, since some servers send no offsets in the text or wrong ones; offsets count where
    the tokens spell neither the continuation nor the prompt. The end token is not scored: the interface can't ask
    for it.
    The client library retries transient errors; those that persist are raised unchanged.

    Example:
        >>> scorer = ServerScorer("my-model", "http://localhost:8000/v1")
        >>> scorer.score([])
        []
    """

    causal = True
    """The model continues its prompt (a decoder-only model)."""

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
            base_url: The server, such as `http://localhost:8000/v1`; None takes OPENAI_BASE_URL.
            api_key: The server's key; None takes OPENAI_API_KEY, or none.
            batch_size: Texts a request.
            client: An `openai.OpenAI` to use instead of a new one.

        Raises:
            UsageError: `batch_size` is below 1.
        """
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {batch_size}")
        self.model, self.batch_size = model, batch_size
        self.base_url, self._api_key = base_url, api_key
        self._client = client
        self._lock = threading.Lock()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: The openai package is not installed.
            ModelError: The server rejects the request, returns no log-probabilities of its input,
                or returns tokens of which it can't be told where the continuation begins.
            UsageError: A prompt is empty: a server gives a text's first token no probability.
        """
        wanted = [i for i, (_, continuation) in enumerate(pairs) if continuation]
        if any(not pairs[i][0] for i in wanted):
            raise UsageError("a completion server can't score after an empty prompt: give a prompt")
        scores = [0.0] * len(pairs)
        for first in range(0, len(wanted), self.batch_size):
            batch = wanted[first : first + self.batch_size]
            choices = self._complete(["".join(pairs[i]) for i in batch])
            for i, choice in zip(batch, choices, strict=True):
                scores[i] = self._sum(choice.logprobs, *pairs[i])
        return scores

    def _complete(self, texts: list[str]) -> list[Any]:
        """Send one request and return its choices in the order of `texts`."""
        client = self._connected()
        import openai

        try:
            reply = client.completions.create(
                model=self.model, prompt=texts, max_tokens=0, echo=True, logprobs=1, temperature=0
            )
        except (
            openai.BadRequestError,
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
            openai.UnprocessableEntityError,
        ) as error:
            raise ModelError(f"the server rejected the scoring request for {self.model}: {_line(error)}") from error
        choices = sorted(reply.choices, key=lambda choice: choice.index)
        if len(choices) != len(texts):
            raise ModelError(f"the server scored only {len(choices)} of {len(texts)} texts")
        return choices

    def _connected(self) -> Any:
        """Return the client, made once."""
        with self._lock:
            if self._client is None:
                try:
                    import openai
                except ImportError as error:
                    raise MissingExtraError("scoring by a server", "openai") from error
                key = self._api_key or os.environ.get("OPENAI_API_KEY") or "none"
                self._client = openai.OpenAI(base_url=self.base_url, api_key=key)
            return self._client

    def _sum(self, logprobs: Any, prompt: str, continuation: str) -> float:
        """Sum the log-probabilities of the tokens that reach into the continuation."""
        tokens = getattr(logprobs, "tokens", None)
        values = getattr(logprobs, "token_logprobs", None)
        if not tokens or not values or len(tokens) != len(values):
            raise ModelError(
                f"the server returns no log-probabilities of its input for {self.model}: "
                "scoring needs /v1/completions with echo (vLLM has it)"
            )
        text, border = prompt + continuation, len(prompt)
        reaching = _by_tokens(tokens, text, border)
        if reaching is None:
            reaching = _by_offsets(getattr(logprobs, "text_offset", None), tokens, text, border)
        if reaching is None:
            raise ModelError(
                f"the tokens that the server sent for {self.model} don't spell the text to score, "
                f"nor do its offsets tell where each one stands: for {text[-_SHOWN:]!r} it sent "
                f"{tokens[-_SHOWN_TOKENS:]!r}"
            )
        chosen = values[len(values) - reaching :]
        if any(value is None for value in chosen):
            raise ModelError("the server left out the probability of a token of the text to score")
        return checked_score(float(sum(chosen)))


_SHOWN, _SHOWN_TOKENS = 60, 12
"""Characters and tokens of a text's end that an error shows."""


_PIECE = "\ufffd"
"""What a token shows that is only a part of a character."""
_MARKS = str.maketrans("ĠĊĉč▁", " \n\t\r ")
"""White space as byte-level and SentencePiece vocabularies write it."""


def _by_tokens(tokens: Sequence[str], text: str, border: int) -> int | None:
    """Return how many of the last tokens reach beyond `border`; None where they don't tell."""
    plain = [token.translate(_MARKS) for token in tokens]
    ways: tuple[Callable[[Sequence[str], str, int], int | None], ...] = (_from_end, _from_front)
    found = (way(shown, text, border) for way in ways for shown in (tokens, plain))
    return next((one for one in found if one is not None), None)


def _from_end(tokens: Sequence[str], text: str, border: int) -> int | None:
    """Return the number by the tokens that spell the continuation; None where they don't.

    A server that decodes SentencePiece tokens one by one drops the space before a word: what is
    missing in front of a token belongs to it. An empty token is part of the next one.
    """
    end = len(text)
    for count, token in enumerate(reversed(tokens)):
        if not token:
            continue
        if end > border and not text.endswith(token, 0, end):
            end = len(text[:end].rstrip(" "))
        if end <= border:
            return count
        if not text.endswith(token, 0, end):
            return None
        end -= len(token)
    return None if end else len(tokens)


def _from_front(tokens: Sequence[str], text: str, border: int) -> int | None:
    """Return the number by the tokens that spell the prompt, before characters in pieces.

    What is missing in front of a token belongs to it here too; the name of a begin-of-text token
    is passed over.
    """
    opening = tokens[0].partition(_PIECE)[0].lstrip(" ")
    first, at = int(not text.lstrip(" ").startswith(opening)), 0
    for passed, token in enumerate(tokens[first:], start=first):
        shown = token.partition(_PIECE)[0]
        if token and not text.startswith(shown, at):
            at = len(text) - len(text[at:].lstrip(" "))
        whole, end = shown == token, at + len(shown)
        over = at >= border or end > border or not (whole or text[end:border].strip(" "))
        if over:
            left = tokens[passed:]
            return len(left) if _spelt_in_pieces(left, text[at:]) else None
        if not (whole and text.startswith(shown, at)):
            return None
        at = end
    return None


def _spelt_in_pieces(tokens: Sequence[str], text: str) -> bool:
    """Say whether tokens spell a text but for spaces, and for characters that stand in pieces."""
    joined = "".join(tokens).replace(" ", "")
    parts = [escape(part) for part in re.split(f"{_PIECE}+", joined)]
    return len(parts) > 1 and fnmatchcase(text.replace(" ", ""), "?*".join(parts))


def _by_offsets(offsets: Sequence[int] | None, tokens: Sequence[str], text: str, border: int) -> int | None:
    """Return the same by the tokens' places in the text; None where these can't be right.

    Offsets that only add up the lengths of tokens know no more than the tokens do. A token of no
    width is part of a character that the next one ends.
    """
    lengths = accumulate((len(token) for token in tokens[:-1]), initial=0)
    if offsets is None or len(offsets) != len(tokens) or list(offsets) == list(lengths):
        return None
    if offsets[0] != 0 or offsets[-1] > len(text) or list(offsets) != sorted(offsets):
        return None
    if not text.startswith(tokens[0]) and offsets[1:2] == [len(tokens[0])]:
        return None  # the name of a begin-of-text token counts as text
    ends = [*offsets[1:], len(text)]
    return sum(start >= border or end > border for start, end in zip(offsets, ends, strict=True))


def _line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
