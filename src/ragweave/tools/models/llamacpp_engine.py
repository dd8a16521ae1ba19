"""llama-cpp-python beneath the chat model: weights, turns, reused prefixes, replies, scores."""

from __future__ import annotations

import codecs
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import ModelError, UnusableModelError, UsageError, need

_RECOMPUTED = 8
"""Tokens: llama.cpp computes fewer at once by other kernels, whose numbers differ."""
_LOGGED_ERROR = 4
_SAMPLING = ("top_p", "top_k", "min_p", "repeat_penalty")


class Loading(NamedTuple):
    """How weights are loaded; models that agree in this share them."""

    path: str
    n_ctx: int
    n_gpu_layers: int
    n_threads: int | None
    n_batch: int
    flash_attention: bool
    use_extra_bufts: bool


class Weights:
    """The weights of one file with one context, loaded at first use."""

    def __init__(self, loading: Loading) -> None:
        self.loading = loading
        self._llama: Any = None
        self._load_lock, self._turn_lock = threading.Lock(), threading.Lock()

    @staticmethod
    def shared(loading: Loading) -> Weights:
        """Return the weights that are in use under these settings, or new ones."""
        with _SHARING:
            return _SHARED.setdefault(loading, Weights(loading))

    def __deepcopy__(self, memo: dict[int, Any]) -> Weights:
        return self

    @property
    def llama(self) -> Any:
        """The `llama_cpp.Llama`, for its tokenizer; its context is used within `turn`."""
        with self._load_lock:
            self._llama = self._llama or _load(self.loading)
            return self._llama

    @contextmanager
    def turn(self) -> Iterator[Any]:
        """Give the `llama_cpp.Llama` to one caller at a time."""
        with self._turn_lock:
            llama = self.llama
            try:
                yield llama
            except RuntimeError as error:
                llama.n_tokens = 0  # nobody knows what the context holds now
                raise ModelError(f"llama.cpp failed on {self.loading.path}: {error}") from error

    def close(self) -> None:
        """Free the memory; the next call loads the file again."""
        with self._turn_lock, self._load_lock:
            if self._llama:
                self._llama.close()
            self._llama = None


_SHARED: WeakValueDictionary[Loading, Weights] = WeakValueDictionary()
_SHARING = threading.Lock()


def llama_cpp() -> Any:
    """Return the module `llama_cpp`.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        ModelError: Its library does not load.
    """
    need("A GGUF model", "llamacpp", "llama_cpp")
    try:
        import llama_cpp as module
    except (OSError, RuntimeError) as error:  # a CUDA build on a machine without CUDA
        raise ModelError(f"llama-cpp-python can't load its library: {error}") from error
    return module


@lru_cache(maxsize=8)
def facts(path: str) -> Mapping[str, str]:
    """Return the metadata of a GGUF file, such as `general.name`; the weights are not loaded.

    Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

    Raises:
        UnusableModelError: llama.cpp can't read the file, or it is not the first of a split model's.
    """
    llama = _opened(llama_cpp().Llama, path, n_ctx=16, vocab_only=True)
    metadata = dict(llama.metadata)
    llama.close()
    return metadata


def _load(loading: Loading) -> Any:
    class Loaded(llama_cpp().Llama):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "model_params":
                value.use_extra_bufts = loading.use_extra_bufts  # no argument of `Llama`
            super().__setattr__(name, value)

    settings = {name: getattr(loading, name) for name in ("n_ctx", "n_gpu_layers", "n_threads", "n_batch")}
    more = {"n_threads_batch": loading.n_threads, "flash_attn": loading.flash_attention}
    return _opened(Loaded, loading.path, **settings, **more)


def _opened(kind: Any, path: str, **settings: Any) -> Any:
    """Open a file; if that fails, the error has the first message that llama.cpp logs, which names the cause."""
    lib, errors = llama_cpp(), list[str]()

    @lib.llama_log_callback  # type: ignore[untyped-decorator]
    def listen(level: int, text: bytes, _: Any) -> None:
        if level == _LOGGED_ERROR:
            errors.append(text.decode())

    lib.llama_log_set(listen, None)
    try:
        return kind(path, verbose=False, **settings)
    except (ValueError, RuntimeError, AssertionError) as error:
        reason = " ".join(next(iter(errors), str(error)).split())
        raise UnusableModelError(f"llama.cpp can't load {path}: {reason}") from error
    finally:
        lib.llama_log_set(lib._logger.llama_log_callback, None)


def reuse_prefix(llama: Any, tokens: Sequence[int]) -> int:
    """Cut the context to the tokens that it shares with a prompt's beginning; return their number.

    The last tokens are always computed again, so that the logits do not depend on earlier calls.
    """
    before = llama.input_ids[: max(0, min(llama.n_tokens, len(tokens) - _RECOMPUTED))]
    differs = np.flatnonzero(before != np.asarray(tokens[: len(before)]))
    shared = int(differs[0]) if differs.size else len(before)
    lib = llama_cpp()
    if not lib.llama_memory_seq_rm(lib.llama_get_memory(llama.ctx), 0, shared, -1):
        llama.reset()  # the state of a recurrent model can't be cut
        return 0
    llama.n_tokens = shared
    return shared


def log_softmax(llama: Any) -> NDArray[np.float64]:
    """Return the natural-log probabilities of the next token, shape (vocabulary,)."""
    pointer = llama_cpp().llama_get_logits_ith(llama.ctx, -1)
    row = np.ctypeslib.as_array(pointer, shape=(llama.n_vocab(),)).astype(np.float64)
    row -= row.max()
    normal: NDArray[np.float64] = row - np.log(np.exp(row).sum())
    return normal


def written(
    llama: Any, prompt: Sequence[int], call: Mapping[str, Any], limit: int
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Write a reply in full characters and without stop sequences, at most `limit` tokens.

    Yields:
        For each token: the text that it adds, its log-probability in OpenAI's form, and why the reply ends with it
        (`stop` or `length`; "" if it goes on).
    """
    lib, decoder, pending = llama_cpp(), codecs.getincrementaldecoder("utf-8")("replace"), ""
    llama.set_seed(lib.LLAMA_DEFAULT_SEED if call["seed"] is None else call["seed"])
    sampling = {name: call[name] for name in _SAMPLING}
    drawn = llama.generate(prompt, temp=call["temperature"], grammar=_grammar(llama, call), **sampling)
    for count, token in enumerate(drawn, start=1):
        ends = lib.llama_vocab_is_eog(_vocabulary(llama), token)
        listed = call["logprobs"] and (not ends or count == 1)  # a decision reads the first token, whatever it is
        info = {"logprobs": {"content": [_entry(llama, token, call["top_logprobs"])]}} if listed else {}
        if ends:
            yield pending, info, "stop"
            return
        text, pending, stops = _shown(pending + decoder.decode(special(llama, token)), call["stop"])
        reason = "stop" if stops else "length" if count == limit else ""
        yield text + pending if reason == "length" else text, info, reason
        if reason:
            return


def _shown(text: str, stops: Sequence[str]) -> tuple[str, str, bool]:
    """Return the text before a stop sequence, its end that may begin one, and whether there is a whole one."""
    if places := [at for at in map(text.find, stops) if at >= 0]:
        return text[: min(places)], "", True
    starts = (stop[:length] for stop in stops for length in range(1, len(stop)))
    cut = len(text) - max((len(start) for start in starts if text.endswith(start)), default=0)
    return text[:cut], text[cut:], False


def _entry(llama: Any, token: int, count: int) -> dict[str, Any]:
    row = log_softmax(llama)
    entry, *others = (
        {
            "token": (data := special(llama, int(candidate))).decode("utf-8", "replace"),
            "bytes": list(data),
            "logprob": float(row[candidate]),
        }
        for candidate in (token, *(np.argsort(-row)[:count] if count else ()))
    )
    return {**entry, "top_logprobs": others}


def _grammar(llama: Any, call: Mapping[str, Any]) -> Any:
    """Return the grammar that a call asks for, or None."""
    lib, text = llama_cpp(), call["grammar"]
    if schema := call.get("json_schema"):
        text = lib.llama_grammar.json_schema_to_gbnf(json.dumps(schema))
    if text is None:
        return None
    sampler = lib.llama_sampler_init_grammar(_vocabulary(llama), text.encode(), b"root")
    if not sampler:
        raise UsageError(f"llama.cpp can't parse this grammar: {text[:200]}")
    lib.llama_sampler_free(sampler)
    return lib.LlamaGrammar.from_string(text, verbose=False)


def encoded(llama: Any, text: str, *, begins: bool = True, marks: bool = False) -> list[int]:
    """Return the tokens of a text.

    `begins`: a prompt begins here, which some models mark by a token. `marks`: names of control tokens stand for these;
    else they are plain text.
    """
    tokens: list[int] = llama.tokenize(text.encode(), add_bos=False, special=marks)
    start = llama.token_bos()
    if begins and llama_cpp().llama_vocab_get_add_bos(_vocabulary(llama)) and tokens[:1] != [start]:
        return [start, *tokens]
    return tokens


def special(llama: Any, token: int) -> bytes:
    """Return a token's text, which for a control token is its name; "" for -1."""
    return bytes(llama.detokenize([token], special=True)) if token >= 0 else b""


def harmless(llama: Any, text: str) -> str:
    """Return a text with a space inserted in each name of a control token, so that it is read as plain text."""
    lib, vocabulary = llama_cpp(), _vocabulary(llama)
    for token in set(encoded(llama, text, begins=False, marks=True)):
        if lib.llama_vocab_get_attr(vocabulary, token) & lib.LLAMA_TOKEN_ATTR_CONTROL:
            name = special(llama, token).decode()
            text = text.replace(name, f"{name[:1]} {name[1:]}")
    return text


def _vocabulary(llama: Any) -> Any:
    return llama_cpp().llama_model_get_vocab(llama.model)


def scores(llama: Any, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the natural-log probability of each continuation, end token included, after its prompt, in nats.

    Common beginnings of prompts are computed once. A prompt that is too long for the context loses its beginning.

    Raises:
        UsageError: A continuation is longer than the context.
    """
    by_pair: dict[tuple[str, str], float] = {}
    for pair in sorted(set(pairs)):  # neighbours share as much of their beginnings as they can
        head, tail = _pair(llama, *pair)
        llama.eval(head[reuse_prefix(llama, head) :])
        total = 0.0
        for at, token in enumerate(tail):
            if at:
                llama.eval([tail[at - 1]])
            total += log_softmax(llama)[token]
        by_pair[pair] = min(0.0, float(total))  # rounding may put it above
    return [by_pair[pair] for pair in pairs]


def _pair(llama: Any, prompt: str, continuation: str) -> tuple[list[int], list[int]]:
    start, end = llama.token_bos(), llama.token_eos()
    head, tail = encoded(llama, prompt), encoded(llama, continuation, begins=False)
    tail += [end] if end >= 0 else []
    head = head or [max(start, end)]  # for an empty prompt: a token that texts begin or end with
    room = llama.n_ctx() - len(tail)
    if room < 1:
        raise UsageError(
            f"the text to score has {len(tail)} tokens, but the model takes {llama.n_ctx()}, prompt included: shorten it"
        )
    if len(head) > room:
        first = head[:1] if head[0] == start and room > 1 else []
        head = [*first, *head[len(head) - room + len(first) :]]
    return head, tail
