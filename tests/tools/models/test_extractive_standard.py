"""LangChain's standard unit tests on the extractive model."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.unit_tests import ChatModelUnitTests

from ragweave.tools.extractive import ExtractiveChat


class TestExtractiveChat(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[ExtractiveChat]:
        return ExtractiveChat

    @property
    def chat_model_params(self) -> dict[str, str]:
        return {"similarity": "lexical"}
