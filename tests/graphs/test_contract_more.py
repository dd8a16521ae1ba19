"""The contract of the methods beside the four papers and their baselines."""

from __future__ import annotations

from langchain_core.documents import Document

from ragweave.testing import CARDS, MethodTests, OptionCase, Setting


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
