"""The contract of a model spec: what our graphs need beyond what langchain-tests checks.

langchain-tests' suites say what a LangChain chat model is; this one says what its spec string, its
replies and its token counts must be.
"""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import SkipTest

from langchain_core.language_models import BaseChatModel

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing.scripted import CARDS
from ragweave.tools.models import chat_model


class ChatModelSpecTests:
    """What a spec string must keep. Subclass it and name the spec.

    class TestMine(ChatModelSpecTests):
        spec = "mine:small?size=3"
    """

    spec: str
    """The spec, with whatever it takes to work."""
    question: str = "Who built the bridge at Alden?"
    repeats: bool = True
    """Whether the same prompt gives the same reply, as a model that decodes greedily does."""
    unknown_setting: str = "colour"
    """A setting that the spec doesn't have; empty: any is taken."""

    def model(self) -> BaseChatModel:
        """Return a new model of the spec."""
        made = chat_model(self.spec)
        assert isinstance(made, BaseChatModel), f"{type(made).__name__} is not a chat model"
        return made

    def test_a_spec_makes_a_chat_model(self) -> None:
        """The spec, white space around it or not, makes a chat model; a model is taken as it is."""
        made = self.model()
        assert chat_model(made) is made
        self.spec = f"  {self.spec}\n"
        assert type(self.model()) is type(made)

    def test_an_unknown_setting_is_refused(self) -> None:
        """A setting that it doesn't have is named in one line."""
        if not self.unknown_setting:
            raise SkipTest("this spec takes any setting")
        try:
            chat_model(f"{self.spec}{'&' if '?' in self.spec else '?'}{self.unknown_setting}=blue")
        except UsageError as error:
            assert self.unknown_setting in str(error), str(error)
            assert "\n" not in str(error)
            assert "blue" not in str(error), "the error shows the value, which may be a key"
        else:
            raise AssertionError(f"the setting {self.unknown_setting} is taken")

    def test_invoke_ainvoke_and_stream_reply(self) -> None:
        """All three ways give text, the same one where the model repeats itself."""
        model = self.model()
        said = model.invoke(self.question)
        awaited = asyncio.run(self.model().ainvoke(self.question))
        streamed = [str(chunk.text) for chunk in model.stream(self.question)]
        texts = [str(said.text), str(awaited.text), "".join(streamed)]
        assert texts[0].strip(), "the model says nothing"
        if self.repeats:
            assert texts == [texts[0]] * 3, f"invoke, ainvoke and stream differ: {texts}"

    def test_token_counts_add_up(self) -> None:
        """Reported tokens are counts and add up; a model that reports none says nothing."""
        said = self.model().invoke(self.question)
        usage = said.usage_metadata
        if usage is None:
            raise SkipTest("this model reports no tokens")
        assert usage["input_tokens"] > 0
        assert usage["output_tokens"] >= 0
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]

    def test_a_method_answers_by_it(self) -> None:
        """A graph built from the spec answers, and its ledger takes the model's counts."""
        given: Any = {"question": self.question, "passages": list(CARDS[:2])}
        graph = build_graph("concat", model=self.model())
        out = graph.invoke(given)
        assert out["status"] in ("answered", "unknown")
        assert out["usage"]["calls"] == 1
        assert out["usage"]["input_tokens"] > 0
        counts = self.model().invoke(self.question).usage_metadata is not None
        assert out["usage"]["estimated"] is not counts
        if self.repeats:
            assert asyncio.run(graph.ainvoke(given))["answer"] == out["answer"]
