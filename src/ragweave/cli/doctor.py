"""`ragweave doctor`: checks the installation, a model and a knowledge base."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

import typer

from ragweave.cli.screen import progress_console
from ragweave.errors import MissingExtraError, ModelError, UsageError

if TYPE_CHECKING:
    from ragweave.tools.models.llamacpp import LlamaCppChat

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
_PACKAGES = ("ragweave", "langgraph", "langchain-core")
_DEVELOPERS = {"all", "bench", "dev", "docs", "notebooks", "test", "test-core"}
"""Extras that only combine others, or are for work on ragweave itself."""
_BUILDS = "https://abetlen.github.io/llama-cpp-python/whl"
_PROMPT = "The old bridge was opened in the spring. " * 25
_REPLY_TOKENS = 24
"""Tokens of the timed reply."""


class Finding(NamedTuple):
    """One fact, shown as a line."""

    topic: str
    level: Literal["ok", "note", "problem"]
    """`problem`: something does not work; `note`: worth knowing."""
    text: str


def doctor(
    model: Annotated[
        str | None, typer.Option(help="Model to load, describe and time: a GGUF file, or smollm2.")
    ] = None,
    kb: Annotated[str | None, typer.Option(metavar="KB", help="Knowledge base to check.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="With --kb: rebuild its index from its passages.")] = False,
    backup: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="With --kb: copy it to a new folder while others use it.")
    ] = None,
) -> None:
    """Check the installation and, if given, a model file and a knowledge base.

    Exits with code 1 if it finds a problem.
    """
    from ragweave.tools.text.untrusted import plain

    findings = [*_installed(), *_llama_cpp_build()]
    if model is not None:
        findings += _model(model)
    if kb is not None:
        findings += _knowledge_base(kb, backup, repair=repair)
    topic = ""
    for finding in findings:
        if finding.topic != topic:
            topic = finding.topic
            typer.echo(topic)
        typer.echo(f"  {_MARKS[finding.level]} {plain(finding.text)}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _installed() -> Iterator[Finding]:
    yield Finding("package", "ok", f"Python {platform.python_version()}")
    for name in _PACKAGES:
        yield Finding("package", "ok", f"{name} {metadata.version(name)}")
    missing = []
    for extra, packages in _extras().items():
        try:
            first, *_ = [f"{name} {metadata.version(name)}" for name in packages]
            yield Finding("extra", "ok", f"{extra} ({first})")
        except metadata.PackageNotFoundError:
            missing.append(extra)
    if missing:
        text = f'not installed: {", ".join(missing)}. To add one: pip install "ragweave[NAME]"'
        yield Finding("extra", "note", text)
    yield Finding("machine", "ok", f"{platform.system()} {platform.machine()}, {os.cpu_count() or '?'} processors")


def _extras() -> dict[str, list[str]]:
    """Return the packages of each extra that users install."""
    packages: dict[str, list[str]] = {}
    for line in metadata.requires("ragweave") or ():
        match = re.fullmatch(r"([\w.-]+)(?:\[.*?\])?[^;]*; extra == ['\"]([\w-]+)['\"]", line)
        if match and match[2] not in _DEVELOPERS and match[1] != "ragweave":
            packages.setdefault(match[2], []).append(match[1])
    return packages


def _llama_cpp_build() -> Iterator[Finding]:
    """Yield the hardware that llama.cpp was built for, if it is installed."""
    from ragweave.tools.models.llamacpp_engine import llama_cpp

    try:
        lib = llama_cpp()
    except MissingExtraError:
        return
    except ModelError as error:
        yield Finding("llama.cpp", "problem", str(error))
        return
    built = " ".join(lib.llama_print_system_info().decode().split())
    if lib.llama_supports_gpu_offload():
        yield Finding("llama.cpp", "ok", f"layers go to the GPU ({built})")
    else:
        yield Finding("llama.cpp", "note", f"no GPU; builds with GPU support: {_BUILDS} ({built})")


def _model(text: str) -> list[Finding]:
    """Return a model file's description, and how fast the model runs."""
    from ragweave.tools.providers import chat_model

    head = text.strip().partition("?")[0]
    spec = text if head == "smollm2" or head.startswith("llamacpp:") else f"llamacpp:{text}"
    try:
        model = cast("LlamaCppChat", chat_model(spec))
        return [*_facts(model), Finding("speed", "ok", _speed(model))]
    except (ModelError, MissingExtraError) as error:
        return [Finding("model", "problem", str(error))]


def _facts(model: LlamaCppChat) -> Iterator[Finding]:
    size = model.facts.get("general.size_label", "size not stated")
    yield Finding("model", "ok", f"{model.model_name}: architecture {model.facts['general.architecture']}, {size}")
    yield Finding("model", "ok", f"trained context {model.trained_context}, opened {model.context} tokens")
    if not model.template:
        text = "no chat template: set chat_template=…, or chat_template=plain to continue the prompt"
        yield Finding("model", "problem", text)


def _speed(model: LlamaCppChat) -> str:
    """Return the tokens per second of a prompt and of a reply."""
    from langchain_core.messages import AIMessageChunk

    with model.weights.turn():
        began = first = time.perf_counter()  # the weights are loaded
    total = AIMessageChunk(content="")
    for chunk in model.bind(max_tokens=_REPLY_TOKENS).stream(_PROMPT):
        first = first if total.content else time.perf_counter()
        total += cast("AIMessageChunk", chunk)
    usage = total.usage_metadata or {"input_tokens": 0, "output_tokens": 0}
    read, written = usage["input_tokens"] / (first - began), usage["output_tokens"] / (time.perf_counter() - first)
    counts = f"{usage['input_tokens']} and {usage['output_tokens']} measured"
    return f"{read:.1f} tokens per second of a prompt, {written:.1f} of a reply ({counts})"


def _knowledge_base(kb: str, backup: str | None, *, repair: bool) -> list[Finding]:
    """Return a knowledge base's problems; `repair` first rebuilds its index if there are any. One without is copied."""
    from ragweave.tools.knowledge import KnowledgeBase, open_knowledge_base

    with open_knowledge_base(kb) as base:
        if repair and base.check():
            with progress_console().status("rebuilding …"):
                base.rebuild()
        problems = [Finding("knowledge base", "problem", line) for line in base.check()]
        if backup is not None and not problems:
            if not isinstance(base, KnowledgeBase):
                raise UsageError("--backup: a server has its own backups")
            base.backup(backup)
        missing = [
            f"{path}: the file is gone; its passages stay until its folder is indexed again"
            for path in base.missing_files()
        ]
        healthy = (
            [] if problems else [Finding("knowledge base", "ok", f"{kb}: {len(base)} passages, no problems found")]
        )
        return [*problems, *healthy, *(Finding("knowledge base", "note", line) for line in missing)]
