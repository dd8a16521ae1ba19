"""One loaded model and its context: what the scheduler drives, from one thread."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import ModelError, UnusableModelError, UsageError
from ragweave.llamacpp.binding import (
    USABLE,
    bind,
    context_length,
    in_main_memory,
    log,
    physical_cores,
)
from ragweave.llamacpp.context_memory import state_bytes
from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.llamacpp.guard import Repack
from ragweave.llamacpp.prefix import State, least_prefix
from ragweave.llamacpp.sampling import Row
from ragweave.llamacpp.vocabulary import Vocabulary


@dataclass(frozen=True)
class CoreSettings:
    """How a model is loaded; see `LlamaCppChat` for the meaning."""

    n_gpu_layers: int = -1
    n_ctx: int | None = None
    n_parallel: int = 8
    n_kept: int | None = None
    cache_ram: int | None = None
    n_batch: int = 512
    n_threads: int | None = None
    flash_attention: bool | None = None
    repack: Repack = "auto"

    def __post_init__(self) -> None:
        for name in ("n_ctx", "n_parallel", "n_batch", "n_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        for name in ("n_kept", "cache_ram"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name} must be 0 or more, not {value}")
        if self.n_parallel > 64:
            raise UsageError(f"n_parallel must be at most 64, not {self.n_parallel}")
        if self.repack not in ("auto", "on", "off"):
            raise UsageError(f"repack must be auto, on or off, not {self.repack!r}")
        if self.n_batch < self.n_parallel:
            raise UsageError(
                f"n_batch must be at least n_parallel ({self.n_parallel}), not {self.n_batch}"
            )

    def sequences(self, facts: GGUFFacts) -> int:
        """Return for how many sequences a model's context is opened.

        More than run at a time, so that finished ones can lend their beginnings to others. Not
        where each sequence has a recurrent state: that takes memory, and can't be shared.
        """
        many = self.n_parallel if state_bytes(facts) else max(32, 4 * self.n_parallel)
        # llama.cpp aborts where a context has more sequences than a batch has tokens.
        return min(256, many, self.n_batch)


class Run(NamedTuple):
    """One sequence's share of a batch: consecutive tokens."""

    sequence: int
    start: int
    """Position of the first token."""
    tokens: Sequence[int]
    logits_from: int
    """First position whose logits are computed."""


class Core:
    """Weights, key-value cache and batch of one model. Not safe under threads."""

    def __init__(
        self,
        facts: GGUFFacts,
        settings: CoreSettings,
        *,
        extra_buffers: bool = True,
        most: int | None = None,
        abandoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """Load the model.

        Args:
            facts: The model's file.
            settings: How to load it.
            extra_buffers: Whether llama.cpp may repack weights for this processor.
            most: Longest context to open; None: what the settings ask for, or what fits.
            abandoned: Asked while the weights are read; where it says yes, the load fails.

        Raises:
            MissingExtraError: llama-cpp-python is not installed.
            UnusableModelError: The model does not generate text, this build does not support its
                quantisation, llama.cpp can't load it, or there is too little memory.
        """
        self._lib = lib = bind()
        if facts.embedding_only:
            raise UnusableModelError(
                f"{facts.path.name} ({facts.architecture}) is an embedding model and does not "
                "generate text"
            )
        check_types(facts)
        self._extra_buffers = extra_buffers
        self.in_memory = in_main_memory(settings.n_gpu_layers)
        """Whether the model lives in main memory: no layer is offloaded."""
        self.n_sequences = settings.sequences(facts)
        fits = context_length(
            facts, settings.n_ctx, settings.n_batch, self.n_sequences, in_memory=self.in_memory
        )
        self.n_ctx = fits if most is None else min(fits, most)
        self._mark = log().mark()
        self._model = self._load(facts, settings, abandoned)
        self._free_model = weakref.finalize(self, lib.llama_model_free, self._model)
        self.vocabulary = Vocabulary(lib, self._model)
        self._check_kind(facts)
        self.n_batch = settings.n_batch
        self._context = self._open(facts, settings)
        self._free_context = weakref.finalize(self, lib.llama_free, self._context)
        self._memory = lib.llama_get_memory(self._context)
        self.n_threads = int(lib.llama_n_threads(self._context))
        self.can_share = not (
            lib.llama_model_is_recurrent(self._model) or lib.llama_model_is_hybrid(self._model)
        )
        """Whether sequences can share a prefix (recurrent states can't)."""
        self.window = int(lib.llama_model_n_swa(self._model))
        """Tokens that sliding-window attention looks back, its own included; 0 in models without."""
        self.placement = self._placement(facts, settings)
        self._batch = _Batch(lib, self.n_batch)

    def decode(self, runs: Sequence[Run]) -> int:
        """Compute a batch of at most `n_batch` tokens; return llama_decode's code, 0 for success.

        After a failure the caller cuts each sequence back to what it held.
        """
        self._mark = log().mark()
        return int(self._lib.llama_decode(self._context, self._batch.fill(runs)))

    def failure(self) -> str:
        """Return llama.cpp's error message for the last batch."""
        return log().error(self._mark)

    def logits(self, row: int) -> Row:
        """Return a view of the logits of batch row `row`, valid until the next `decode`.

        Raises:
            ModelError: That row's logits were not requested.
        """
        pointer = self._lib.llama_get_logits_ith(self._context, row)
        if not pointer:
            raise ModelError(f"llama.cpp has no logits for row {row}")
        return np.ctypeslib.as_array(pointer, shape=(self.vocabulary.size,))

    def cut(self, sequence: int, keep: int = 0) -> None:
        """Remove a sequence from position `keep` on."""
        if not self._lib.llama_memory_seq_rm(self._memory, sequence, keep, -1) and keep:
            raise ModelError("this model can't remove part of a sequence from its cache")

    def least(self, sequence: int) -> int:
        """Return the shortest prefix of a sequence that others can start from.

        llama.cpp reuses the cells of tokens behind a sequence's window, even in an SWA cache of full
        size (`llama_kv_cache::find_slot`). Where it has done so, tokens close behind them lack what
        they attend to.
        """
        if not self.window:
            return 0
        first = int(self._lib.llama_memory_seq_pos_min(self._memory, sequence))
        return self.n_ctx if first < 0 else least_prefix(first, self.window)

    def share(self, source: int, target: int, count: int) -> None:
        """Let an empty sequence share the first `count` tokens of another."""
        self._lib.llama_memory_seq_cp(self._memory, source, target, 0, count)

    def state_size(self, sequence: int) -> int:
        """Return how many bytes a copy of a sequence's keys and values takes."""
        return int(self._lib.llama_state_seq_get_size(self._context, sequence))

    def state(self, sequence: int) -> State:
        """Return a copy of a sequence's keys and values, empty where llama.cpp can't make one.

        It leaves out what the sequence's last token does not attend to (`state_write`).
        """
        state = np.empty(self.state_size(sequence), np.uint8)
        written = self._lib.llama_state_seq_get_data(
            self._context, _bytes(state), state.nbytes, sequence
        )
        return state[: int(written)]

    def restore(self, sequence: int, state: State) -> bool:
        """Copy keys and values into an empty sequence; return whether there was room for them."""
        read = self._lib.llama_state_seq_set_data(
            self._context, _bytes(state), state.nbytes, sequence
        )
        return int(read) > 0

    def clear(self) -> None:
        """Remove all sequences."""
        self._lib.llama_memory_clear(self._memory, False)

    def close(self) -> None:
        """Free context and model, in this order."""
        self.vocabulary.close()
        self._free_context()
        self._free_model()

    def _load(self, facts: GGUFFacts, settings: CoreSettings, abandoned: Callable[[], bool]) -> Any:
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers = settings.n_gpu_layers
        params.use_extra_bufts = self._extra_buffers
        params.progress_callback = self._lib.llama_progress_callback(lambda *_: not abandoned())
        model = self._lib.llama_model_load_from_file(str(facts.path).encode(), params)
        if not model:
            reason = log().error(self._mark).rpartition("error loading model: ")[2]
            raise UnusableModelError(f"llama.cpp can't load {facts.path.name}: {reason}")
        return model

    def _check_kind(self, facts: GGUFFacts) -> None:
        lib = self._lib
        if not lib.llama_model_has_decoder(self._model) or lib.llama_model_has_encoder(self._model):
            raise UnusableModelError(
                f"{facts.path.name} ({facts.architecture}) is not a decoder-only model"
            )
        if lib.llama_model_is_diffusion(self._model):
            raise UnusableModelError(
                f"{facts.path.name} ({facts.architecture}) is a diffusion model, which is not "
                "supported"
            )

    def _open(self, facts: GGUFFacts, settings: CoreSettings) -> Any:
        """Open the context; one that nobody asked for is shorter where a GPU's memory is."""
        params = self._lib.llama_context_default_params()
        params.n_ctx = self.n_ctx
        params.n_batch = params.n_ubatch = settings.n_batch
        params.n_seq_max = self.n_sequences
        params.n_threads = params.n_threads_batch = settings.n_threads or physical_cores()
        # One pool of cells for all sequences: sharing a prefix then copies nothing.
        params.kv_unified = True
        params.swa_full = True
        if settings.flash_attention is not None:
            params.flash_attn_type = int(settings.flash_attention)
        context = self._lib.llama_init_from_model(self._model, params)
        while not context and settings.n_ctx is None and self.n_ctx > USABLE:
            self.n_ctx = params.n_ctx = max(self.n_ctx // 2, USABLE)
            context = self._lib.llama_init_from_model(self._model, params)
        if not context:
            raise UnusableModelError(
                f"llama.cpp can't open {facts.path.name} with n_ctx={self.n_ctx}: "
                f"{log().error(self._mark)}; a lower n_ctx needs less memory"
            )
        return context

    def _placement(self, facts: GGUFFacts, settings: CoreSettings) -> str:
        if not self._lib.llama_supports_gpu_offload():
            where = "all layers on the CPU (this llama-cpp-python has no GPU support)"
        elif self.in_memory:
            where = "all layers on the CPU (n_gpu_layers=0)"
        else:
            line = log().find("layers to GPU", self._mark) or "offloaded layers: not reported"
            where = line.rpartition(": ")[2]
        return (
            f"{facts.path.name}: {where}; context {self.n_ctx} tokens, "
            f"{settings.n_parallel} at a time, {self.n_threads} threads"
            + ("" if self._extra_buffers else ", extra buffers off")
        )


def _bytes(state: State) -> Any:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def check_types(facts: GGUFFacts) -> None:
    """Check that this build knows every tensor type of the file.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        UnusableModelError: A type is newer than the build.
    """
    lib = bind()
    known = int(getattr(lib, "GGML_TYPE_COUNT", 1 << 31))
    unknown = sorted(name for number, name in facts.tensor_types.items() if number >= known)
    if unknown:
        raise UnusableModelError(
            f"can't load {facts.path.name}: this llama-cpp-python ({lib.__version__}) does not "
            f"support its quantisation ({', '.join(unknown)}): upgrade it, or use another file"
        )


class _Batch:
    """A `llama_batch` over arrays that Python owns, filled by slices."""

    def __init__(self, lib: Any, size: int) -> None:
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._sequences = np.zeros(size, np.int32)
        self._outputs = np.zeros(size, np.int8)
        first = self._sequences.ctypes.data
        self._pointers = np.array([first + 4 * i for i in range(size)], np.uintp)
        self._struct = lib.llama_batch()
        fields: dict[str, NDArray[Any]] = {
            "token": self._tokens,
            "pos": self._positions,
            "n_seq_id": self._counts,
        }
        fields |= {"seq_id": self._pointers, "logits": self._outputs}
        types = dict(lib.llama_batch._fields_)
        for name, array in fields.items():
            setattr(self._struct, name, array.ctypes.data_as(types[name]))
        self._struct.embd = None

    def fill(self, runs: Sequence[Run]) -> Any:
        size = 0
        for run in runs:
            rows = slice(size, size + len(run.tokens))
            self._tokens[rows] = run.tokens
            self._positions[rows] = np.arange(run.start, run.start + len(run.tokens))
            self._sequences[rows] = run.sequence
            self._outputs[rows] = self._positions[rows] >= run.logits_from
            size = rows.stop
        self._struct.n_tokens = size
        return self._struct
