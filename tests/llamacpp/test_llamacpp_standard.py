"""LangChain's own standard tests of chat models, on a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")

from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from ragweave.llamacpp import LlamaCppChat


class _Ours:
    """What both suites are told of the model: no tools, structured output by grammar."""

    settings: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _point_at_file(self, ending: Path) -> None:
        type(self).settings["path"] = str(ending)

    @pytest.fixture
    def model(self, request: Any, _point_at_file: None) -> BaseChatModel:
        extra = getattr(request, "param", None) or {}
        params = {**self.standard_chat_model_params, **self.chat_model_params, **extra}
        return self.chat_model_class(**params)

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return LlamaCppChat

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**self.settings, "n_threads": 1, "seed": 3}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return {}

    @property
    def has_structured_output(self) -> bool:
        return True

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> dict[str, list[str]]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}

    @property
    def supports_model_override(self) -> bool:
        return False

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> Any:
        model = self.chat_model_class(**self.chat_model_params)
        model.invoke("Hello")
        if not stream:
            return model.invoke("Hello")
        whole = None
        for chunk in model.stream("Hello"):
            whole = chunk if whole is None else whole + chunk
        return whole


class TestUnits(_Ours, ChatModelUnitTests):
    pass


class TestIntegration(_Ours, ChatModelIntegrationTests):
    pass
