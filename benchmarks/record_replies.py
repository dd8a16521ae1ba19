"""Record what real models reply at every step of every method, and how many replies were read.

    python benchmarks/record_replies.py --prepare .demo/questions.jsonl.gz
    python benchmarks/record_replies.py --questions .demo/questions.jsonl.gz --out replies \\
        --model "llamacpp:model.gguf?n_gpu_layers=-1&n_ctx=8192" --constrain both
    python benchmarks/record_replies.py --table replies-calls.jsonl.gz \\
        --write benchmarks/results/replies.json

The first command makes the questions' file where the data sets are (`../shared/data`); the second
needs the core install and the models' packages only. Many questions run at once, so that a server
batches their calls; on a small CPU use `--in-flight 2 --k 2 --reply-tokens 160`. A prompt that several methods send is sent once. `--constrain both` records every method with grammars where the
model offers them (`auto`), and the methods whose steps have a form in free text as well.

`OUT-calls.jsonl.gz` has a line for each model call: the step, the prompt, the reply, what the
step's parser reads off it (`read`), and the notes of the step. `OUT-questions.jsonl.gz` has a line
for each question and method: the answer, the gold answers, the notes, or the error. In the prompts
`⟦ID⟧` stands for the text of a passage of the questions' file. A question that fails is recorded
and the others go on; when `--minutes` are over, what has not begun is left out, and the table says
so. The table shows, for each step, how many replies the step could read; whether they were read as
they were meant takes a reader: `tests/recorded`. It also reads what `real_models.py --calls` wrote.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig

sys.path.insert(0, str(Path(__file__).parents[1]))
from call_log import Calls, plain_notes
from ragweave import build_graph
from ragweave.errors import RagweaveError
from ragweave.graphs import METHODS, CompiledGraph
from ragweave.tools.models import chat_model
from reply_questions import Asked, Material, WordEmbeddings, prepare, read
from reply_table import print_table, read_lines, write

FORMED = ("blendfilter", "slimplm", "filco", "self_eval", "adaptive", "chain_of_note")
"""Methods with steps whose replies have a form that a grammar can hold."""
OPTIONS: dict[str, dict[str, Any]] = {"filco": {"filter": "llm"}}
PATIENCE = 20
"""Seconds that what has begun may still take when the time is over."""


@dataclass
class Recording:
    """What all runs share: the material, the files, and the end of the time."""

    material: Material
    calls: TextIO
    questions: TextIO
    until: float
    """When no further run begins, on the monotonic clock."""
    made: int = 0
    runs: int = 0
    failed: int = 0
    missed: int = 0

    def __post_init__(self) -> None:
        """Know each passage's text as prompts show it."""
        found = (doc for docs in self.material.passages.values() for doc in docs)
        self.texts = {str(doc.id): doc.page_content for doc in found}

    def told(self, label: str) -> None:
        """Say how far it is."""
        print(
            f"{label}: {self.runs} runs, {self.failed} failed, {self.missed} out of time, {self.made} calls",
            file=sys.stderr,
            flush=True,
        )

    async def run(self, graph: CompiledGraph, one: Asked, about: Mapping[str, Any]) -> None:
        """Put a question to a method, and write what was said."""
        left = self.until - time.monotonic()
        if left <= 0:
            self.missed += 1
            return
        seen, began = Calls(self.texts, about["method"]), time.perf_counter()
        notes: dict[str, list[dict[str, Any]]] = {}
        line: dict[str, Any] = {**about, "dataset": one.dataset, "id": one.id}
        try:
            async with asyncio.timeout(left + PATIENCE):
                line |= await _followed(graph, one, seen, notes)
        except Exception as error:  # noqa: BLE001 - one question must not end the others
            self.failed += 1
            line["error"] = f"{type(error).__name__}: {error}"
        line |= {"question": one.question, "gold": one.answers, "calls": len(seen.done)}
        line["unfinished"] = [record["node"] for record in seen.open.values()]
        line["seconds"] = round(time.perf_counter() - began, 2)
        line["notes"] = [note for found in notes.values() for note in found]
        key = {**about, "dataset": one.dataset, "id": one.id}
        for record in seen.lines(notes):
            self.calls.write(json.dumps({**key, **record}, ensure_ascii=False) + "\n")
        self.questions.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.made += len(seen.done)
        self.runs += 1


async def _followed(
    graph: CompiledGraph, one: Asked, seen: Calls, notes: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """Run a graph to its end, and collect the notes of its steps by their executions."""
    given = {"question": one.question, "answer_type": one.answer_type}
    config: RunnableConfig = {"callbacks": [seen]}
    output: dict[str, Any] = {}
    async for mode, event in graph.astream(given, config, stream_mode=["values", "tasks"]):
        if mode == "values":
            output = cast("dict[str, Any]", event)
            continue
        ended = cast("dict[str, Any]", event)
        if said := plain_notes(ended.get("result")):
            notes[str(ended["id"])] = said
    return {name: output.get(name) for name in ("answer", "status", "truncated")}


def graphs_of(
    model: BaseChatModel, name: str, material: Material, training: Path, options: Mapping[str, Any]
) -> dict[str, CompiledGraph]:
    """Return a method's graph for each data set.

    Raises:
        RagweaveError: The method can't run with this model.
    """
    more: dict[str, Any] = {**options, **OPTIONS.get(name, {})}
    if name == "skr_knn":
        more |= {"training": str(training), "embeddings": WordEmbeddings()}
    return {
        dataset: build_graph(name, model=model, retriever=found, **more)
        for dataset, found in material.retrievers.items()
    }


async def record(
    given: argparse.Namespace, recording: Recording, spec: str, constrain: str, names: Sequence[str]
) -> None:
    """Put the questions to a model by all methods, many at once, question by question."""
    model = cast("BaseChatModel", chat_model(spec))
    label = spec.partition("?")[0].rpartition(":")[2].rpartition("/")[2].removesuffix(".gguf")
    about = {"model": label, "constrain": constrain}
    set_llm_cache(InMemoryCache())
    options = {
        "k": given.k,
        "constrain": "auto" if constrain == "auto" else False,
        "reply_tokens": given.reply_tokens,
    }
    material, gate = recording.material, asyncio.Semaphore(given.in_flight)
    graphs: dict[str, dict[str, CompiledGraph]] = {}
    with tempfile.TemporaryDirectory() as folder:
        training = Path(folder) / "training.jsonl"
        training.write_text("".join(json.dumps(row) + "\n" for row in material.training), "utf-8")
        for name in names:
            try:
                graphs[name] = graphs_of(model, name, material, training, options)
            except RagweaveError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)

        async def one_run(name: str, one: Asked) -> None:
            async with gate:
                await recording.run(graphs[name][one.dataset], one, {**about, "method": name})

        progress = asyncio.create_task(_progress(recording, f"{label}, constrain={constrain}"))
        asked = material.taken(given.first, given.count)
        await asyncio.gather(*(one_run(name, one) for one in asked for name in graphs))
        progress.cancel()
    recording.told(f"{label}, constrain={constrain}: done")
    close = getattr(model, "close", None)
    if close is not None:
        close()


async def _progress(recording: Recording, label: str) -> None:
    while True:
        await asyncio.sleep(20)
        recording.told(label)
        recording.calls.flush()
        recording.questions.flush()


def record_all(given: argparse.Namespace) -> None:
    """Record every model, with and without grammars as wanted; each gets its share of the time."""
    material = read(given.questions)
    kinds = ("auto", "off") if given.constrain == "both" else (given.constrain,)
    plan = [(spec, kind) for spec in given.model for kind in kinds]
    begun, seconds = time.monotonic(), given.minutes * 60
    paths = [Path(f"{given.out}-{name}.jsonl.gz") for name in ("calls", "questions")]
    with (
        gzip.open(paths[0], "wt", encoding="utf-8") as calls,
        gzip.open(paths[1], "wt", encoding="utf-8") as questions,
    ):
        recording = Recording(material, calls, questions, begun)
        for number, (spec, kind) in enumerate(plan):
            left = begun + seconds - time.monotonic()
            recording.until = time.monotonic() + max(0.0, left) / (len(plan) - number)
            formed = [name for name in METHODS if kind == "auto" or name in FORMED]
            names = given.methods.split(",") if given.methods else formed
            asyncio.run(record(given, recording, spec, kind, names))
    for path in paths:
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")
    print_table(read_lines(paths[0]))


def main() -> None:
    """Prepare questions, record replies, or print the table of what was recorded."""
    parser = argparse.ArgumentParser(description="Record real models' replies at every step.", epilog=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--prepare", type=Path, help="write the questions' file and end")
    parser.add_argument("--table", type=Path, nargs="*", help="print the table of calls and end")
    parser.add_argument("--write", type=Path, help="with --table: a JSON file for the table")
    parser.add_argument("--add", action="store_true", help="with --write: add to what it holds")
    parser.add_argument("--questions", type=Path, help="the questions' file")
    parser.add_argument("--out", default="replies", help="beginning of the two files' names")
    parser.add_argument("--model", action="append", default=[], help="a model spec; may repeat")
    parser.add_argument("--methods", default="", help="comma-separated; all that can run")
    parser.add_argument("--constrain", choices=("auto", "off", "both"), default="auto")
    parser.add_argument("--count", type=int, default=40, help="questions a data set")
    parser.add_argument("--first", type=int, default=0, help="the first question of each")
    parser.add_argument("--k", type=int, default=5, help="passages a query")
    parser.add_argument("--reply-tokens", type=int, default=512, help="longest reply")
    parser.add_argument("--minutes", type=float, default=8, help="most time, for all models")
    parser.add_argument("--in-flight", type=int, default=48, help="runs at the same time")
    given = parser.parse_args()
    if given.prepare:
        print(f"{given.prepare}: {prepare(given.prepare, given.count)}")
    elif given.table:
        print_table(line for path in given.table for line in read_lines(path))
        if given.write:
            write(given.write, given.table, add=given.add)
    elif given.questions and given.model:
        record_all(given)
    else:
        print("nothing recorded: name --questions and --model (see --help)")


if __name__ == "__main__":
    main()
