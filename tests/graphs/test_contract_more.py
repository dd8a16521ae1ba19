"""The contract of the methods beside the four papers and their baselines."""

from __future__ import annotations

from langchain_core.documents import Document

from ragweave.testing import CARDS, MethodTests, ModelCall, OptionCase, Setting


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
        Setting(options={"reader": "direct"}, finds=False),
        Setting(options={"reader": "chain"}),
        Setting(options={"reader": "chain", "max_steps": 1}),
        Setting(finds=False),
    )
    option_cases = {
        "max_passages": OptionCase(2),
        "constrain": OptionCase(
            False,
            Setting(
                options={"reader": "direct"},
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
