"""The weights of trained components, loaded once a process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragweave.errors import ModelError, UsageError, need
from ragweave.tools.trained.card import CARD, read_card


@contextmanager
def loaded(folder: str | Path) -> Iterator[Any]:
    """Load a component, once for all graphs of the process, and give it to one thread at a time.

    Yields:
        What the kind's `load` returns (`linear.py`, `networks.py`).

    Raises:
        MissingExtraError: The packages of that kind are not installed.
        ModelError: The weights are damaged, or not there.
    """
    path = Path(folder).expanduser().resolve()
    with _TURN:  # tokenizers are not safe under threads
        yield _loaded(path, (path / CARD).stat().st_mtime_ns)


_TURN = threading.RLock()


@lru_cache(maxsize=8)
def _loaded(path: Path, _changed: int) -> Any:
    card = read_card(path)
    if card.kind == "linear":
        need("A trained linear component", "offline", "safetensors")
        from ragweave.tools.trained.linear import load
    else:
        need(f"A trained {card.kind}", "hf", "safetensors", "torch", "transformers")
        from ragweave.tools.trained.networks import load
    try:
        return load(path, card)
    except UsageError:
        raise
    except Exception as error:  # each library has errors of its own
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"{path}: can't be read ({reason})") from error
