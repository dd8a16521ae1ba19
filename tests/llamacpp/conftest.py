"""Tiny models on a real engine; one thread each, since more only fight over a small machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights whose replies never end by themselves."""
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", end_bias=-50.0)


@pytest.fixture(scope="session")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose JSON strings and objects end after a few tokens, and replies by chance."""
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "ending.gguf", close_bias=4.0)


@pytest.fixture
def make_chat(tiny: Path) -> Iterator[Callable[..., Any]]:
    """Makes chat models with one thread, and frees them."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    from ragweave.llamacpp import LlamaCppChat

    made: list[LlamaCppChat] = []

    def make(**settings: Any) -> LlamaCppChat:
        # Flash attention on CPUs is too coarse to compare replies across batch shapes.
        usual = {"path": tiny, "n_threads": 1, "max_tokens": 24, "flash_attention": False}
        made.append(LlamaCppChat(**{**usual, **settings}))
        return made[-1]

    yield make
    for model in made:
        model.close()
