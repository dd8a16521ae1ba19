"""`ragweave doctor`: what is installed, how a model runs, whether a knowledge base is sound."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from ragweave.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from ragweave.tools.models.llamacpp import LlamaCppChat

Level = Literal["ok", "note", "problem"]

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
_PACKAGES = (
    ("ragweave", ""),
    ("langgraph", ""),
    ("langchain-core", ""),
    ("langchain-openai", "openai"),
    ("chromadb", "chroma"),
    ("onnxruntime", "offline"),
    ("sentence-transformers", "encoders"),
    ("langchain-community", "community"),
    ("langchain-postgres", "postgres"),
    ("langchain-qdrant", "qdrant"),
    ("langchain-elasticsearch", "elasticsearch"),
    ("ray", "ray"),
    ("llama-cpp-python", "llamacpp"),
)
_BUILDS = "https://abetlen.github.io/llama-cpp-python/whl"
_READ, _WRITTEN = 256, 24
"""Tokens read and written to measure a model's speed."""


@dataclass(frozen=True)
class Finding:
    """One fact."""

    topic: str
    """What it is about: `package`, `machine`, `llama.cpp`, `model`, `speed` or `knowledge base`."""
    level: Level
    """`problem`: something asked for will not work; `note`: worth knowing."""
    text: str
    """One line to show."""


def doctor(
    model: Annotated[
        str | None,
        typer.Option("--model", help="Model to load, describe and time: a GGUF file, llamacpp:PATH, or smollm2."),
    ] = None,
    kb: Annotated[str | None, typer.Option("--kb", metavar="KB", help="Knowledge base to check: its folder.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="With --kb: rebuild its index from its passages.")] = False,
) -> None:
    """Check the installation and, if they are named, a model file and a knowledge base.

    Exits with code 1 if it finds a problem.
    """
    from ragweave.tools.text.plain import plain

    findings = [*installed(), llama_cpp_build()]
    if model is not None:
        findings += inspect_model(model)
    if kb is not None:
        findings += inspect_kb(kb, repair=repair)
    topic = ""
    for finding in findings:
        if finding.topic != topic:
            topic = finding.topic
            typer.echo(topic)
        typer.echo(f"  {_MARKS[finding.level]} {plain(finding.text)}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def installed() -> list[Finding]:
    """Return which packages are there, and the processors."""
    found = [Finding("package", "ok", f"Python {platform.python_version()}")]
    for name, extra in _PACKAGES:
        try:
            found.append(Finding("package", "ok", f"{name} {metadata.version(name)}"))
        except metadata.PackageNotFoundError:
            where = f': pip install "ragweave[{extra}]"' if extra else ""
            level: Level = "note" if extra else "problem"
            found.append(Finding("package", level, f"{name} is not installed{where}"))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count() or '?'} processors"
    return [*found, Finding("machine", "ok", machine)]


def llama_cpp_build() -> Finding:
    """Return what llama.cpp was built for."""
    from ragweave.tools.models.llamacpp_engine import llama_cpp

    try:
        lib = llama_cpp()
    except MissingExtraError:
        return Finding("llama.cpp", "note", "llama-cpp-python is not installed")
    except ModelError as error:
        return Finding("llama.cpp", "problem", str(error))
    built = " ".join(lib.llama_print_system_info().decode().split())
    if lib.llama_supports_gpu_offload():
        return Finding("llama.cpp", "ok", f"layers go to the GPU ({built})")
    return Finding("llama.cpp", "note", f"no GPU; builds for one: {_BUILDS} ({built})")


def inspect_model(model: str, *, speed: bool = True) -> list[Finding]:
    """Return what a model file says of itself, and how fast it runs.

    Args:
        model: The file's path or spec, with settings behind `?`.
        speed: Whether to load and time it.

    Raises:
        UsageError: A setting is unknown or out of range.
    """
    from ragweave.tools.models.specs import chat_model

    head = model.strip().partition("?")[0]
    spec = model if head == "smollm2" or head.startswith("llamacpp:") else f"llamacpp:{model}"
    try:
        made = cast("LlamaCppChat", chat_model(spec))
        return [*_facts(made), *(_speed(made) if speed else ())]
    except (ModelError, MissingExtraError) as error:
        return [Finding("model", "problem", str(error))]


def inspect_kb(kb: str, *, repair: bool = False) -> list[Finding]:
    """Return what is wrong with a knowledge base.

    Args:
        kb: Its folder.
        repair: Whether to rebuild its index first, if anything is wrong.

    Raises:
        KnowledgeBaseError: It cannot be opened.
    """
    from ragweave.cli.screen import progress_bar
    from ragweave.tools.knowledge import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        if repair and base.check():
            with progress_bar():
                base.rebuild()
        found = [Finding("knowledge base", "problem", line) for line in base.check()]
        gone = [f"{path}: the file is gone; its passages are still here" for path in base.missing_files()]
        sound = [] if found else [Finding("knowledge base", "ok", f"{kb}: {len(base)} passages, no problems found")]
        return [*found, *sound, *(Finding("knowledge base", "note", line) for line in gone)]


def _facts(model: LlamaCppChat) -> list[Finding]:
    header = model.header
    size = header.metadata.get("general.size_label", "size not stated")
    said = f"{header.name}: architecture {header.architecture}, {size}"
    context = f"trained context {header.context or 'not stated'}, opened {model.context} tokens"
    found = [Finding("model", "ok", said), Finding("model", "ok", context)]
    if model.chat_template or header.template:
        return [*found, Finding("model", "ok", "has a chat template")]
    text = "no chat template: set chat_template=…, or chat_template=plain to continue the prompt"
    return [*found, Finding("model", "problem", text)]


def _speed(model: LlamaCppChat) -> list[Finding]:
    from ragweave.tools.models.llamacpp_engine import encoded, llama_cpp, log_softmax

    with model.weights.turn() as llama:
        count = min(_READ, model.context // 2)
        tokens = (encoded(llama, "The old bridge was opened in the spring. ") * count)[:count]
        llama.reset()
        times = [time.perf_counter()]
        for parts in ([tokens], [tokens[:1]] * _WRITTEN):
            for part in parts:
                llama.eval(part)
            log_softmax(llama)  # waits for a GPU
            times.append(time.perf_counter())
        read, written = count / (times[1] - times[0]), _WRITTEN / (times[2] - times[1])
        parameters = llama_cpp().llama_model_n_params(llama.model)
    text = f"{read:.1f} tokens a second of a prompt, {written:.1f} of a reply"
    return [
        Finding("model", "ok", f"{parameters / 1e6:,.0f} million parameters"),
        Finding("speed", "ok", f"{text} ({count} and {_WRITTEN} measured)"),
    ]
