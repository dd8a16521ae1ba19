"""The contract of the model specs, and langchain-tests' tool suites over a method."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from tests.openai_server import OpenAIServer

from ragweave.testing import ScriptedModel

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from ragweave import build_graph
from ragweave.testing import CARDS, ChatModelSpecTests, RecordingRetriever


class TestExtractive(ChatModelSpecTests):
    spec = "extractive"


@pytest.mark.loopback
class TestOpenAI(ChatModelSpecTests):
    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        pytest.importorskip("langchain_openai")
        with OpenAIServer(["Ada Brenner"]) as server:
            self.spec = f"openai:scripted?base_url={server.base_url}"
            yield


class TestLlamaCpp(ChatModelSpecTests):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _file(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        pytest.importorskip("llama_cpp")
        pytest.importorskip("gguf")
        from tests import tiny_gguf

        path: Path = tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", end_bias=-50.0)
        cls.spec = f"llamacpp:{path}?n_threads=1&max_tokens=8"


# -- a method as a tool ------------------------------------------------------------------------


class Tool:
    """Concat as a LangChain tool."""

    @property
    def tool_constructor(self) -> BaseTool:
        model = ScriptedModel(script=["Ada Brenner"])
        finder = RecordingRetriever(documents=list(CARDS))
        return build_graph("concat", model=model, retriever=finder).as_tool()

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"question": "Who built the bridge at Alden?"}


class TestToolUnits(Tool, ToolsUnitTests):
    pass


class TestToolAtWork(Tool, ToolsIntegrationTests):
    pass
