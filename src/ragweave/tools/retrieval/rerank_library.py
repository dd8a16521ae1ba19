"""Rerankers of the library `rerankers`: ColBERT, T5, FlashRank, listwise LLMs and hosted ones.

Source: Clavié 2024, "rerankers: A Lightweight Python Library to Unify Ranking Methods".
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.registry import closest
from ragweave.tools.retrieval.embedding import quiet
from ragweave.tools.text.secrets import spec_settings, without_secrets

_KEYS = {
    "cohere": "COHERE_API_KEY",
    "isaacus": "ISAACUS_API_KEY",
    "jina": "JINA_API_KEY",
    "mixedbread.ai": "MIXEDBREAD_API_KEY",
    "pinecone": "PINECONE_API_KEY",
    "voyage": "VOYAGE_API_KEY",
}
"""Hosted rerankers, and the variable of the environment that holds the key of each."""
_LLMS = ("llm-relevance-filter", "rankgpt", "rankllm")
"""Types that ask a chat model, with the key of its provider."""
TYPES = (
    *("colbert", "t5", "cross-encoder", "flashrank", "lit5", "llm-layerwise", "monovlm", "mxbaiv2"),
    *("pylate", "upr", "text-embeddings-inference", *_LLMS, *_KEYS),
)
"""The library's types of models."""


class LibraryScorer:
    """Scores pairs by a model of the library `rerankers`; one that only orders gives 1 / rank."""

    def __init__(self, model: Any, spec: str, key: str = "") -> None:
        """Take a model.

        Args:
            model: An object with the library's `rank(query=…, docs=…, doc_ids=…)`.
            spec: What errors call it.
            key: The variable that holds its API key, if it needs one.
        """
        self._model, self._spec, self._key = model, spec, key

    def predict(self, pairs: list[tuple[str, str]], /) -> Sequence[float]:
        """Return one score a pair; the passages of a query are ranked together.

        Raises:
            ModelError: The model, or the service behind it, failed.
        """
        scores = [0.0] * len(pairs)
        for query in dict.fromkeys(query for query, _ in pairs):
            places = [at for at, pair in enumerate(pairs) if pair[0] == query]
            for one in self._ranked(query, [pairs[at][1] for at in places]):
                at = places[int(one.doc_id)]
                scores[at] = float(one.score) if one.score is not None else 1 / one.rank
        return scores

    def _ranked(self, query: str, texts: list[str]) -> Any:
        try:
            with redirect_stdout(StringIO()):  # it prints its progress
                return self._model.rank(query=query, docs=texts, doc_ids=list(range(len(texts))))
        except Exception as error:
            # It reads a service's refusal as a ranking, so that any error may come of it.
            check = f"; check {self._key} and the model's name" if self._key else ""
            raise ModelError(
                f"the reranker {self._spec} gave no ranking ({_line(error)}){check}"
            ) from error


def library_reranker(rest: str) -> LibraryScorer:
    """Load a model of the library: `TYPE:MODEL?setting=value`, or `TYPE` for its default model.

    Raises:
        UsageError: There is no such type, or a key stands in the spec.
        MissingExtraError: The library is not installed.
        ModelError: An API's key is missing, or the model cannot be loaded.
    """
    named, _, query = rest.partition("?")
    kind, _, name = named.partition(":")
    settings = {one: _value(text) for one, text in spec_settings(query)}
    if kind not in TYPES:
        raise UsageError(
            f"unknown type {kind!r} of rerankers:TYPE:MODEL{closest(kind, TYPES)}; types: "
            f"{', '.join(TYPES)}"
        )
    if "api_key" in settings:
        variable = _key_of(kind, name)
        raise UsageError(f"rerankers:{kind}: give the key as {variable} in the environment")
    spec = f"rerankers:{named}"
    if find_spec("rerankers") is None:
        raise MissingExtraError(f"The reranker {spec}", "rerankers")
    variable = _key_of(kind, name)
    if variable:
        settings["api_key"] = os.environ.get(variable) or _absent(spec, variable)
    return LibraryScorer(_loaded(spec, kind, name, settings), spec, variable)


def _key_of(kind: str, name: str) -> str:
    """Return the variable that holds the key of a type's service, or ""."""
    if kind not in _LLMS:
        return _KEYS.get(kind, "")
    provider = name.partition("/")[0] if "/" in name else "openai"
    return f"{provider.upper().replace('-', '_')}_API_KEY"


def _absent(spec: str, variable: str) -> str:
    raise ModelError(f"the reranker {spec} needs an API key: set {variable} in the environment")


def _loaded(spec: str, kind: str, name: str, settings: dict[str, Any]) -> Any:
    from rerankers.reranker import DEFAULTS, Reranker

    hosted = kind in _KEYS or kind == "text-embeddings-inference"
    if hosted:
        settings = {"api_provider": kind, "api_key": "", **settings}
    model = name or DEFAULTS.get(kind, {}).get("en") or DEFAULTS.get(kind, {}).get("other")
    if model is None:
        raise UsageError(f"{spec}: name a model: rerankers:{kind}:MODEL")
    if kind == "colbert":
        _mend_colbert()
    said = StringIO()
    try:
        with redirect_stdout(said), quiet():
            made = Reranker(
                model, model_type="APIRanker" if hosted else kind, verbose=0, **settings
            )
    except Exception as error:  # a model's own code, of many kinds
        raise ModelError(f"the reranker {spec} cannot be loaded ({_line(error)})") from error
    if made is None:
        raise ModelError(f"the reranker {spec} needs more packages: {_line(said.getvalue())}")
    return made


def _mend_colbert() -> None:
    """Let the library's ColBERT load by transformers 5, whose `post_init` it leaves out (0.10)."""
    from rerankers.models.colbert_ranker import ColBERTModel

    if not hasattr(ColBERTModel, "all_tied_weights_keys"):
        ColBERTModel.all_tied_weights_keys = {}


def _value(text: str) -> Any:
    """Return a setting typed: a number, true, false, null, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _line(error: object) -> str:
    text = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
    return without_secrets(" ".join(text.split()))[:200]
