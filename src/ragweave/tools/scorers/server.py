"""Log-probabilities from a completion server that echoes its input (vLLM and the like)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers.specs import checked_score


class ServerScorer:
    """Scores continuations through `/v1/completions` with `echo` and `logprobs`.

    The server tokenises prompt and continuation as one text; a token that straddles the two
    counts as the continuation's. The end token is not scored: the interface can't ask for it.
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
        self._base_url, self._api_key = base_url, api_key
        self._client = client
        self._lock = threading.Lock()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: The openai package is not installed.
            ModelError: The server rejects the request or returns no log-probabilities of its input.
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
            raise ModelError(
                f"the server rejected the scoring request for {self.model}: {_line(error)}"
            ) from error
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
                self._client = openai.OpenAI(base_url=self._base_url, api_key=key)
            return self._client

    def _sum(self, logprobs: Any, prompt: str, continuation: str) -> float:
        """Sum the log-probabilities of the tokens that reach into the continuation."""
        offsets = getattr(logprobs, "text_offset", None)
        values = getattr(logprobs, "token_logprobs", None)
        if not offsets or not values or len(offsets) != len(values):
            raise ModelError(
                f"the server returns no log-probabilities of its input for {self.model}: "
                "scoring needs /v1/completions with echo (vLLM has it)"
            )
        # Some servers count a begin-of-text token's own name as text.
        end = offsets[-1] + len(logprobs.tokens[-1])
        border = len(prompt) + max(0, end - len(prompt) - len(continuation))
        ends = [*offsets[1:], max(end, border + 1)]
        chosen = [value for value, stop in zip(values, ends, strict=True) if stop > border]
        if any(value is None for value in chosen):
            raise ModelError("the server left out the probability of a token of the text to score")
        return checked_score(float(sum(chosen)))


def _line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
