"""The contract of the methods beside the four papers and their baselines."""

from __future__ import annotations

from typing import ClassVar

from langchain_core.documents import Document
from langchain_core.messages import AIMessage

from ragweave.testing import CARDS, MethodTests, ModelCall, OptionCase, Setting, unsure


class TestDosRag(MethodTests):
    method = "dos_rag"
    replies = ("Ada Brenner",)
    documents = tuple(
        Document(card.page_content, id=card.id, metadata={"source": "alden.txt", "position": -n})
        for n, card in enumerate(CARDS)
    )
    option_cases = {
        "k": OptionCase(2),
        "token_budget": OptionCase(40),
        "order": OptionCase("reversed", Setting(options={"document_order": False})),
        "document_order": OptionCase(False),
    }


class TestIrcot(MethodTests):
    method = "ircot"
    cut_short = Setting(options={"max_steps": 1})
    more_settings = (
        Setting(options={"read_by": "direct"}, finds=False),
        Setting(options={"read_by": "chain"}),
        Setting(options={"read_by": "chain", "max_steps": 1}),
        Setting(finds=False),
    )
    option_cases = {
        "max_passages": OptionCase(2),
        "constrain": OptionCase(
            False,
            Setting(
                options={"read_by": "direct"},
                model={"offers_grammar": True},
                input={"answer_type": "yes_no"},
            ),
        ),
        "ask_again": OptionCase(
            False,
            Setting(replies={"reason": "So the answer is: her.", "answer_cot": "<passage 1>"}),
        ),
    }

    def reply(self, call: ModelCall) -> str:
        if call.node == "answer_cot":
            return "The card on the bridge names her. So the answer is Ada Brenner."
        if call.node == "answer":
            return "Ada Brenner"
        chain = call.last.rpartition("Reasoning so far: ")[2]
        if "from Norhaven" in chain:
            return "So the answer is: Ada Brenner."
        if "thirties" in chain:
            return "An engineer from Norhaven put it up. It is well known. So the answer is: X."
        return "The bridge is a work of the thirties."


class TestChainOfNote(MethodTests):
    method = "chain_of_note"
    replies = ("Note 1: It names her.\nNote 2: Irrelevant.\nAnswer: Ada Brenner",)
    more_settings = (
        Setting(options={"notes": False}),
        Setting(finds=False),
        Setting(options={"own_knowledge": False}, finds=False),
    )
    option_cases = {
        "constrain": OptionCase(
            False,
            Setting(
                options={"notes": False},
                model={"offers_grammar": True},
                input={"answer_type": "yes_no"},
            ),
        ),
    }


class TestCrag(MethodTests):
    method = "crag"
    replies = {
        "grade": "Ambiguous",
        "keywords": "bridge, Alden",
        "refine": "0, 1",
        "answer": "Ada Brenner",
    }
    more_settings = (
        Setting(replies={**replies, "grade": "Incorrect"}),
        Setting(replies={**replies, "grade": "Correct"}),
        Setting(options={"rewrite": False}),
        Setting(replies={**replies, "grade": "Incorrect"}, finds=False),
    )
    option_cases = {
        "profile": OptionCase("slimplm"),
        "strips": OptionCase(1),
        "strip_sentences": OptionCase(1),
        "ask_again": OptionCase(False, Setting(replies={**replies, "answer": "<passage 1>"})),
        "order": OptionCase("reversed", Setting(options={"refine": False})),
    }


class TestSure(MethodTests):
    method = "sure"
    scripted: ClassVar[dict[str, str]] = {
        "propose": "(a) Karl Oster (b) Ada Brenner",
        "summarise": "The card on the bridge names its builder.",
        "verify": "True",
        "rank": "Passage 1",
    }
    more_settings = (
        Setting(replies={**scripted, "propose": "Ada Brenner"}),
        Setting(replies={**scripted, "propose": "Unknown"}),
        Setting(finds=False),
    )
    option_cases = {
        "k": OptionCase(2),
        "candidates": OptionCase(1),
        "constrain": OptionCase(False, Setting(model={"offers_grammar": True})),
        "profile": OptionCase("paper", Setting(model={"offers_grammar": True})),
    }
    idle_options = {"ask_again": "a reply without a candidate is Unknown"}

    def reply(self, call: ModelCall) -> str:
        if call.node == "verify":
            return str("Prediction: Ada" in call.last.rpartition("Question:")[2])
        return self.scripted[call.node]


class TestAstute(MethodTests):
    method = "astute"
    replies = {
        "recall": "Bridges of that time were works of Norhaven's engineers.",
        "consolidate": "Both sources speak of a work of the thirties.",
        "answer": "The card on the bridge names her. <ANSWER>Ada Brenner</ANSWER>",
    }
    more_settings = (
        Setting(options={"iterations": 2}),
        Setting(replies={**replies, "recall": "I don't know."}),
        Setting(replies={**replies, "recall": "I don't know."}, finds=False),
    )
    option_cases = {
        "k": OptionCase(2),
        "iterations": OptionCase(3),
        "profile": OptionCase("slimplm"),
    }
    idle_options = {"constrain": "what reasons first is held to no form"}


class TestUncertaintyGate(MethodTests):
    method = "uncertainty_gate"
    doubtful = unsure("Karl Oster", Karl=0.5, Oster=0.5)
    words = ("Karl Oster", "Karl Brenner", "Ada Brenner")
    sampled = Setting(options={"gate": "variance"}, replies=(*words, "Ada Brenner"))
    unknowing = Setting(replies={"gate": "Ada", "answer": "Unknown"})
    option_cases = {
        "gate": OptionCase("variance", Setting(replies=(*words, "Ada Brenner"))),
        "gate_tokens": OptionCase(10),
        "profile": OptionCase("slimplm"),
        "gate_samples": OptionCase(2, sampled),
        "threshold": OptionCase(0.001, Setting(replies=("Ada Brenner",))),
        "second_look": OptionCase(False, unknowing),
        "ask_again": OptionCase(False, Setting(replies={"gate": "Ada", "answer": "<passage 1>"})),
    }
    more_settings = (
        Setting(replies=("Ada Brenner",)),
        Setting(replies=("Unknown", "Ada Brenner")),
        Setting(options={"gate": "dissimilarity"}, replies=(*words, "Ada Brenner")),
        Setting(options={"gated_by": "proxy"}, finds=False),
    )

    def reply(self, call: ModelCall) -> AIMessage | str:
        return self.doubtful if call.node == "gate" else "Ada Brenner"


class TestAdaptiveRag(MethodTests):
    method = "adaptive_rag"
    unknowing = Setting(replies={"classify": "A", "answer_cot": "So the answer is Unknown."})
    many = Setting(options={"strategy": "many"})
    cut_short = Setting(options={"strategy": "many", "max_steps": 1})
    more_settings = (
        many,
        many.with_options(read_by="chain"),
        many.with_options(read_by="chain", max_steps=1),
        many.with_options(read_by="direct"),
        unknowing,
        Setting(options={"strategy": "none"}),
        Setting(options={"strategy": "none", "read_by": "direct"}),
        Setting(options={"read_by": "direct"}),
        Setting(options={"strategy": "many"}, finds=False),
    )
    option_cases = {
        "k": OptionCase(2, many),
        "max_steps": OptionCase(1, many),
        "max_passages": OptionCase(2, many),
        "read_by": OptionCase("chain"),
        "second_look": OptionCase(False, unknowing),
        "ask_again": OptionCase(
            False, Setting(replies={"classify": "B", "answer_cot": "<passage 1>"})
        ),
    }
    idle_options = {
        "router": "needs a trained part: tests/training/encoders/test_router.py shows it",
    }

    def reply(self, call: ModelCall) -> str:
        return "B" if call.node == "classify" else TestIrcot.reply(TestIrcot(), call)
