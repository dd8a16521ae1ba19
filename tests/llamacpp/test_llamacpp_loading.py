"""Loading a model: the context that is opened and stated, and Ctrl-C meanwhile."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from tests.loops import final_state
from tests.scripted import ListRetriever, documents

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

import tiny_gguf
from ragweave import build_chat, build_graph
from ragweave.errors import ModelError, UnusableModelError
from ragweave.llamacpp import LlamaCppChat, binding, core, engine, options
from ragweave.llamacpp.core import Core, CoreSettings
from ragweave.llamacpp.gguf import read_gguf
from ragweave.nodes.model_context import context_of
from ragweave.tools.threads import on_event_loop


def memory_for(tiny: Path, n_ctx: int) -> int:
    return binding.needed_memory(read_gguf(tiny), n_ctx, 32)


def test_a_context_cut_to_the_memory_is_what_prompts_are_made_for(
    make_chat, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1024))
    model = make_chat(overflow="drop_middle")  # its tokenizer knows few words
    copies = [model, model.bind(stop=["x"]), model.model_copy(), copy.deepcopy(model)]
    assert [context_of(one) for one in copies] == [1024] * 4
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1024) + 1)
    given = documents(*(f"{name} " * 200 for name in ("alpha", "beta", "gamma", "delta")))
    graph = build_graph("concat", model=model, reply_tokens=24, ask_again=False)
    state = final_state(graph, {"question": "Where?", "passages": given})
    assert "passages_dropped" in [one["event"] for one in state["notes"]]
    assert (model.engine.n_ctx, model.profile["max_input_tokens"]) == (1024, 1024)
    model.close()
    monkeypatch.setattr(binding, "free_memory", lambda: None)
    assert context_of(model.bind(stop=["x"])) == 1024
    assert model.engine.n_ctx == model.profile["max_input_tokens"] == 2048
    stated = make_chat(profile={"max_input_tokens": 700}, n_ctx=800)
    assert stated.engine.n_ctx == 800
    assert context_of(stated) == stated.profile["max_input_tokens"] == 700


def test_a_context_that_nobody_asked_for_is_lowered_where_less_memory_is_free_at_the_load(
    make_chat, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1536))
    model = make_chat()
    assert context_of(model) == 1536
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 768))
    assert model.engine.n_ctx == context_of(model) == 768
    model.close()
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1536))
    assert model.engine.n_ctx == context_of(model) == 1536
    model.close()
    assert context_of(model) == 1536
    monkeypatch.setattr(binding, "free_memory", lambda: None)
    assert model.engine.n_ctx == context_of(model) == 1536, "what prompts were made for"
    model.close()
    asked = make_chat(n_ctx=1536)
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 768))
    with pytest.raises(ModelError, match="or lower the n_ctx of another model that is loaded"):
        asked.invoke("hello")


def test_a_load_that_failed_measures_the_memory_again(
    make_chat, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1024))
    model = make_chat()
    assert context_of(model) == 1024
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 256))
    with pytest.raises(ModelError, match="or lower the n_ctx of another model that is loaded"):
        model.invoke("hello")
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1536))
    assert model.engine.n_ctx == context_of(model) == 1536


def test_a_prompt_can_be_made_where_the_model_can_not_be_loaded(
    make_chat, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replies may all be kept in a cache."""
    model = make_chat()
    with monkeypatch.context() as patch:
        patch.setattr(binding, "free_memory", lambda: memory_for(tiny, 0))
        assert (model.opened_context, context_of(model)) == (None, 2048)
        patch.setattr(binding, "_LOADED", {})
        patch.setitem(sys.modules, "llama_cpp", None)
        assert (model.opened_context, context_of(model)) == (None, 2048)
    assert context_of(model) == model.opened_context == 2048


def test_a_context_that_nobody_asked_for_is_halved_where_a_gpu_has_no_room_for_it(
    make_chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = binding.bind()
    opened = lib.llama_init_from_model

    def on_a_small_gpu(model: Any, params: Any) -> Any:
        return opened(model, params) if params.n_ctx <= 1024 else None

    monkeypatch.setattr(lib, "llama_init_from_model", on_a_small_gpu)
    monkeypatch.setattr(core, "USABLE", 256)
    monkeypatch.setattr(binding, "free_memory", lambda: None)
    model = make_chat()
    assert model.engine.n_ctx == context_of(model) == 1024
    assert model.invoke("Where?").usage_metadata["output_tokens"] > 0
    with pytest.raises(UnusableModelError, match="a lower n_ctx needs less memory"):
        _ = make_chat(n_ctx=2048).engine


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether an event loop was blocked, each time that llama.cpp's library was needed."""
    needed: list[bool] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **settings: Any) -> Any:
            needed.append(on_event_loop())
            return function(*args, **settings)

        return noted

    for module, name in ((engine, "in_main_memory"), (options, "schema_grammar")):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    return needed


@pytest.mark.parametrize("fits", [True, False])
def test_a_run_chooses_the_context_off_the_event_loop(
    make_chat, tiny: Path, monkeypatch: pytest.MonkeyPatch, blocked: list[bool], fits: bool
) -> None:
    """As `langgraph dev` demands, which ends a run that blocks its loop."""
    free = memory_for(tiny, 1024 if fits else 0)
    monkeypatch.setattr(binding, "free_memory", lambda: free)
    model = make_chat(overflow="drop_middle")
    graph = build_graph("concat", model=model, reply_tokens=24, ask_again=False)
    given = {"question": "Where?", "passages": documents(*(f"{one} " * 200 for one in "abcd"))}
    if fits:
        asyncio.run(graph.ainvoke(given))
        assert model.opened_context == 1024
    else:
        with pytest.raises(ModelError, match="of memory"):
            asyncio.run(graph.ainvoke(given))
    assert set(blocked) == {False}


def test_a_follow_up_chooses_the_context_off_the_event_loop(make_chat, blocked: list[bool]) -> None:
    model = make_chat(overflow="drop_middle")
    said = [HumanMessage("Where?"), AIMessage("There."), HumanMessage("And when?")]
    retriever = ListRetriever(documents=documents("alpha"))
    chat = build_chat("concat", model=model, retriever=retriever)
    asyncio.run(chat.ainvoke({"messages": said}))
    assert model.context_chosen
    assert set(blocked) == {False}


def test_a_run_in_a_notebook_knows_the_context(
    make_chat, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell is run by an event loop, and may call `invoke`."""
    monkeypatch.setattr(binding, "free_memory", lambda: memory_for(tiny, 1024))
    model = make_chat(overflow="drop_middle")
    graph = build_graph("concat", model=model, reply_tokens=24, ask_again=False)
    passages = documents(*(f"{name} " * 200 for name in ("alpha", "beta", "gamma", "delta")))

    async def cell() -> dict[str, Any]:
        return final_state(graph, {"question": "Where?", "passages": passages})

    state = asyncio.run(cell())
    assert "passages_dropped" in [one["event"] for one in state["notes"]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_becomes_a_grammar_off_the_event_loop(
    make_chat, ending: Path, blocked: list[bool], stream: bool
) -> None:
    model = make_chat(path=ending, n_ctx=512)

    async def call() -> None:
        if stream:
            _ = [one async for one in model.astream("hello", json_schema={"type": "boolean"})]
        else:
            await model.ainvoke("hello", json_schema={"type": "boolean"})

    asyncio.run(call())
    assert set(blocked) == {False}


class InterruptsOnce(logging.Handler):
    """Sends Ctrl-C while llama.cpp writes its log."""

    sent = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interrupt(caplog: pytest.LogCaptureFixture) -> Iterator[InterruptsOnce]:
    if sys.platform == "win32":
        pytest.skip("Windows sends no such signal")
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("Ctrl-C reaches the main thread alone")
    handler = InterruptsOnce()
    caplog.set_level(logging.DEBUG, "ragweave.llamacpp")
    logging.getLogger("ragweave.llamacpp").addHandler(handler)
    before = signal.getsignal(signal.SIGINT)
    yield handler
    signal.signal(signal.SIGINT, before)
    logging.getLogger("ragweave.llamacpp").removeHandler(handler)


def test_an_interrupt_during_a_load_is_not_lost(make_chat, interrupt: InterruptsOnce) -> None:
    model = make_chat(n_ctx=512)
    with pytest.raises(KeyboardInterrupt):
        model.invoke("hello")
    assert interrupt.sent
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert model.invoke("hello").content


def test_a_handler_that_only_takes_note_lets_the_load_go_on(
    make_chat, interrupt: InterruptsOnce
) -> None:
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: noted.append(number))
    assert make_chat(n_ctx=512).invoke("hello").content
    assert (interrupt.sent, noted) == (True, [signal.SIGINT])


def test_an_abandoned_load_ends(tiny: Path) -> None:
    asked: list[int] = []
    with pytest.raises(ModelError, match="can't load"):
        Core(read_gguf(tiny), CoreSettings(n_ctx=512), abandoned=lambda: not asked.append(1))
    assert len(asked) == 1


def test_a_model_without_attention_answers(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    path = tiny_gguf.write_mamba(tmp_path / "mamba.gguf")
    model = LlamaCppChat(path=str(path), n_threads=1, max_tokens=8)
    same, other, again = (model.invoke(text) for text in ("hello", "the question", "hello"))
    assert same.usage_metadata["output_tokens"] == 8
    assert same.content == again.content != other.content
    model.close()
