"""`ragweave doctor`: what is installed, what this machine has, and whether and how fast a model runs."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ragweave.errors import (
    MissingExtraError,
    ModelError,
    RagweaveError,
    UnusableModelError,
    UsageError,
)

if TYPE_CHECKING:
    from ragweave.llamacpp.gguf import GGUFFacts
    from ragweave.llamacpp.guard import Speed
    from ragweave.llamacpp.measuring import Measurement

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}

Level = Literal["ok", "note", "problem"]

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
_WHEELS = (
    ("CUDA", "cu125", "CUDA 12.5; there are cu118 to cu132"),
    ("ROCm", "rocm72", "Linux; hip-radeon on Windows"),
    ("Vulkan", "vulkan", "Linux and Windows, any GPU"),
    ("Metal", "metal", "macOS"),
)
"""Builds of llama-cpp-python, as its README names them."""
_INDEX = "https://abetlen.github.io/llama-cpp-python/whl"
_READ, _WRITTEN = 256, 24
"""Tokens read and written to measure a model's speed."""
_LONG = 8192
"""Tokens: a context that is enough for most uses, shown beside the model's own."""


def doctor(
    model: Annotated[
        str | None,
        typer.Option("--model", help="Model to check: a GGUF file, llamacpp:PATH, or smollm2."),
    ] = None,
    speed: Annotated[
        bool,
        typer.Option(
            "--speed/--no-speed",
            help="With --model: run the model, measure its speed, and keep the faster layout of its "
            "weights for later loads.",
        ),
    ] = True,
) -> None:
    """Check the installation, the machine and, with --model, a model file.

    Exits with code 1 if it finds a problem.
    """
    from ragweave.cli.screen import progress_console
    from ragweave.tools.text.plain import plain

    path, settings = _named(model) if model else (None, {})
    findings = inspect_machine(path, settings)
    usable = not any(one.level == "problem" for one in findings if one.topic == "model")
    if path is not None and speed and usable:
        with progress_console().status("running the model several times"):
            findings += measure_model(path, settings)
    if path is not None:
        findings += faster_builds()
    topic = ""
    for finding in findings:
        if finding.topic != topic:
            topic = finding.topic
            typer.echo(topic)
        typer.echo(f"  {_MARKS[finding.level]} {plain(finding.text)}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _named(model: str) -> tuple[str, dict[str, Any]]:
    """Return the file that a spec or a path names, and the spec's settings.

    Raises:
        UsageError: A setting is unknown or out of range.
    """
    from ragweave.llamacpp.provider import smollm2_file
    from ragweave.tools.models import chat_model
    from ragweave.tools.models.specs import read_settings

    head, _, query = model.strip().partition("?")
    path = str(smollm2_file()) if head == "smollm2" else head.removeprefix("llamacpp:")
    if query:
        with suppress(ModelError, MissingExtraError):  # findings, like the file itself
            chat_model(f"llamacpp:{path}?{query}")
    return path, read_settings(query)


@dataclass(frozen=True)
class Finding:
    """One fact."""

    topic: str
    """What it is about: `package`, `machine`, `gpu`, `model`, `speed` or `faster builds`."""
    level: Level
    """`problem`: something asked for will not work; `note`: worth knowing."""
    text: str
    """One line to show."""


def inspect_machine(
    model_path: str | None = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> list[Finding]:
    """Return what is installed and, given a model file, whether it can run here.

    Args:
        model_path: A GGUF file, or None.
        settings: The spec's settings; `n_ctx`, `n_batch`, `n_gpu_layers` and `chat_template` matter
            here.

    Returns:
        Findings in the order to show them. A broken model file or a missing package is a finding,
        not an exception.
    """
    found = [*_packages(), *_machine(), _gpu()]
    if model_path is not None:
        found += _model(model_path, settings)
    return found


def measure_model(path: str, settings: dict[str, Any]) -> list[Finding]:
    """Run a model in a child process, as the engine would, and say how fast it is.

    With `repack=auto` it runs with extra buffers and without them, in turns, and what is clearly
    faster is cached for later loads.

    Args:
        path: A GGUF file.
        settings: The spec's settings; `repack`, `n_gpu_layers`, `n_threads` and `flash_attention`
            matter here.

    Returns:
        Findings to show after those of `inspect_machine`; a model that cannot run is a problem.
    """
    from ragweave.llamacpp.gguf import read_gguf
    from ragweave.llamacpp.measuring import measure_buffers
    from ragweave.tools.models.specs import flag

    repack = settings.get("repack", "auto")
    named = ("n_gpu_layers", "n_threads", "flash_attention")
    placed: dict[str, Any] = {name: settings[name] for name in named if name in settings}
    if "flash_attention" in placed:
        placed["flash_attention"] = flag("flash_attention", placed["flash_attention"])
    try:
        facts = read_gguf(path)
        read = min(_READ, (facts.context or _READ) // 2)
        found = measure_buffers(facts, repack, {"prompt": read, "reply": _WRITTEN, **placed})
    except RagweaveError as error:
        return [Finding("speed", "problem", str(error))]
    outcome, other = found.outcomes[found.extra], found.outcomes.get(not found.extra)
    if outcome.speed is None:
        advice = "; without extra buffers it runs: set repack=off" if other and other.speed else ""
        text = f"a trial run ended with {outcome.cause}{advice}"
        return [Finding("speed", "problem", text)]
    text = f"{_said(outcome.speed)} ({read} tokens read, {_WRITTEN} written)"
    return [Finding("speed", "ok", text), _buffers(repack, found)]


def _said(speed: Speed) -> str:
    return f"prefill {speed.prefill:.1f} tokens a second, generation {speed.generation:.1f}"


def _buffers(repack: str, found: Measurement) -> Finding:
    """Say whether weights are repacked for this processor, and why."""
    from ragweave.llamacpp.guard import system_info, uses_amx
    from ragweave.llamacpp.verdicts import cache_folder

    state = "on" if found.extra else "off"
    end = f"(repack={repack}, {'AMX' if uses_amx(system_info()) else 'no AMX'} seen)"
    verdict, other = found.verdict, found.outcomes.get(not found.extra)
    if other is None:
        why = ": as requested" if repack == "off" else ""
        why = f": {verdict.cause} with them in a trial run" if verdict else why
        return Finding(
            "speed", "ok" if found.extra else "note", f"extra buffers {state}{why} {end}"
        )
    which = "without" if found.extra else "with"
    if other.speed is None:
        text = f"extra buffers {state}; {which} them a trial run ended with {other.cause} {end}"
        return Finding("speed", "note", text)
    compared = f"{which} them: {_said(other.speed)} {end}"
    if verdict is None:
        return Finding("speed", "ok", f"extra buffers {state}, no clear difference; {compared}")
    if found.kept:
        return Finding("speed", "ok", f"extra buffers {state}, also in later loads; {compared}")
    advice = (
        f"this can't be kept in {cache_folder()}: set repack={'on' if verdict.extra else 'off'}"
    )
    return Finding("speed", "note", f"extra buffers {state}; {compared}; {advice}")


def faster_builds() -> list[Finding]:
    """Name the builds for GPUs, unless the installed one already supports a GPU."""
    from ragweave.llamacpp.binding import bind

    with suppress(MissingExtraError, ModelError):  # findings of their own
        if bind().llama_supports_gpu_offload():
            return []
    line = "pip install --force-reinstall --no-deps --prefer-binary llama-cpp-python"
    line += f" --extra-index-url {_INDEX}"
    texts = (f"{name}: {line}/{folder} ({where})" for name, folder, where in _WHEELS)
    return [Finding("faster builds", "note", text) for text in texts]


def _packages() -> list[Finding]:
    from importlib import metadata

    found = [Finding("package", "ok", f"Python {platform.python_version()}")]
    for name, extra in _PACKAGES:
        try:
            found.append(Finding("package", "ok", f"{name} {metadata.version(name)}"))
        except metadata.PackageNotFoundError:
            where = f': pip install "ragweave[{extra}]"' if extra else ""
            level: Level = "note" if extra else "problem"
            found.append(Finding("package", level, f"{name} is not installed{where}"))
    return found


def _machine() -> list[Finding]:
    from ragweave.llamacpp.binding import free_memory, physical_cores

    cores, logical = physical_cores(), os.cpu_count() or 1
    free = free_memory()
    memory = "free memory unknown" if free is None else f"{_size(free)} of memory free"
    return [
        Finding("machine", "ok", f"{platform.system()} {platform.machine()}"),
        Finding("machine", "ok", f"{cores} physical cores usable ({logical} logical)"),
        Finding("machine", "ok" if free is not None else "note", memory),
    ]


def _gpu() -> Finding:
    """Say whether llama.cpp, or else torch, sees a GPU."""
    from ragweave.llamacpp.binding import bind

    try:
        lib = bind()
    except MissingExtraError:
        return _torch_gpu()
    except ModelError as error:
        return Finding("gpu", "problem", str(error))
    if lib.llama_supports_gpu_offload():
        return Finding("gpu", "ok", "llama-cpp-python sees a GPU and can put layers on it")
    text = "llama-cpp-python sees no GPU (it was built for the CPU only, or there is none)"
    return Finding("gpu", "note", text)


def _torch_gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding(
            "gpu", "note", "no check for a GPU: neither llama-cpp-python nor torch is installed"
        )
    import torch

    if not torch.cuda.is_available():
        return Finding("gpu", "note", "torch sees no CUDA GPU")
    return Finding("gpu", "ok", f"torch sees {torch.cuda.get_device_name(0)}")


def _model(path: str, settings: Mapping[str, Any]) -> list[Finding]:
    from ragweave.llamacpp.gguf import read_gguf

    try:
        facts = read_gguf(path)
    except ModelError as error:
        return [Finding("model", "problem", str(error))]
    found = [
        Finding(
            "model",
            "ok",
            f"{facts.name}: architecture {facts.architecture or 'not stated'}, "
            f"{facts.layers or '?'} layers, {facts.quantisation or 'no tensors'}, "
            f"{_size(facts.size)} on disk",
        )
    ]
    if facts.embedding_only:
        found.append(Finding("model", "problem", "it computes embeddings and cannot write text"))
    found += _types(facts)
    if facts.context is None:
        found.append(Finding("model", "note", "the file states no context length"))
    else:
        found.append(Finding("model", "ok", f"context {facts.context} tokens"))
    found += [_template(facts, settings.get("chat_template")), *_family(facts)]
    requested = settings.get("n_ctx")
    if isinstance(requested, int):
        return [*found, _need(facts, requested, settings)]
    contexts = sorted({min(n, facts.context or n) for n in (_LONG, facts.context or _LONG)})
    return found + [_need(facts, n_ctx, settings) for n_ctx in contexts]


def _types(facts: GGUFFacts) -> list[Finding]:
    """Say where the installed build does not support the file's quantisation."""
    from ragweave.llamacpp.core import check_types

    try:
        check_types(facts)
    except UnusableModelError as error:
        return [Finding("model", "problem", str(error))]
    except (MissingExtraError, ModelError):
        pass  # findings of their own
    return []


def _template(facts: GGUFFacts, given: str | None) -> Finding:
    from ragweave.llamacpp.options import check_template

    if given is not None:
        try:
            check_template(given)
        except UsageError as error:
            return Finding("model", "problem", str(error))
        return Finding("model", "ok", f"chat_template={given}")
    if facts.template is None:
        text = (
            "the file has no chat template: set chat_template=…, or chat_template=plain to let the "
            "model continue the prompt's text"
        )
        return Finding("model", "problem", text)
    return Finding("model", "ok", f"chat template of {len(facts.template)} characters")


def _family(facts: GGUFFacts) -> list[Finding]:
    """Say what the model's card recommends, and whether it is a base model."""
    from ragweave.llamacpp.families import family_of, is_base_model

    found: list[Finding] = []
    family = family_of(facts)
    if family is not None:
        values = ", ".join(f"{name} {value}" for name, value in family.text.items())
        text = f"family {family.name}: sampling=card means {values} ({family.source})"
        found.append(Finding("model", "ok", text))
    if is_base_model(facts):
        text = "it looks like a base model: it continues text and does not follow instructions"
        found.append(Finding("model", "note", text))
    return found


def _need(facts: GGUFFacts, n_ctx: int, settings: Mapping[str, Any]) -> Finding:
    """Say whether a context fits; unless it was requested, the engine opens what does."""
    from ragweave.llamacpp.binding import context_length, free_memory, needed_memory
    from ragweave.llamacpp.core import CoreSettings

    named = {name: settings[name] for name in ("n_batch", "n_parallel") if name in settings}
    loads = CoreSettings(**named)
    sequences = loads.sequences(facts)
    need, free = needed_memory(facts, n_ctx, sequences), free_memory()
    text = f"about {_size(need)} of memory with n_ctx={n_ctx}"
    if not _in_memory(settings.get("n_gpu_layers", CoreSettings.n_gpu_layers)):
        return Finding("model", "note", f"{text}, on the GPU, whose free memory is not measured")
    if free is None:
        return Finding("model", "note", f"{text}; free memory unknown")
    with suppress(UnusableModelError):
        opened = context_length(
            facts, settings.get("n_ctx"), loads.n_batch, sequences, in_memory=True
        )
        if n_ctx <= opened:
            return Finding("model", "ok", f"{text}, {_size(free)} free")
        return Finding("model", "note", f"{text}, {_size(free)} free: n_ctx={opened} is opened")
    return Finding(
        "model",
        "problem",
        f"{text}, but only {_size(free)} free: lower n_ctx, or offload layers to a GPU",
    )


def _in_memory(n_gpu_layers: int) -> bool:
    """Return whether the engine puts a model into main memory, which it measures."""
    from ragweave.llamacpp.binding import in_main_memory

    with suppress(MissingExtraError, ModelError):  # findings of their own
        return in_main_memory(n_gpu_layers)
    return True


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
