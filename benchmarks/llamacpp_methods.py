"""Whole methods over a real local model: this package's engine beside one call at a time.

    python benchmarks/llamacpp_methods.py --model PATH.gguf               # all physical cores
    python benchmarks/llamacpp_methods.py --model PATH.gguf --threads 1   # on one core
    python benchmarks/llamacpp_methods.py --model PATH.gguf --threads 1 --clock cpu   # while busy
    python benchmarks/llamacpp_methods.py --model PATH.gguf --server llama-server=http://localhost:8000/v1

The published results are of Qwen2.5-Coder-0.5B-Instruct in Q4_K_M; `llamacpp_speed.py` times calls of
the same shapes on random weights. The same graphs answer the same questions of HotpotQA, over BM25
in their own passages, at temperature 0 (but for the ten samples), with

* `ours`: `LlamaCppChat`, which decodes concurrent calls together, computes a common prefix once and
  keeps it for later calls and questions; with the layout of weights that `ragweave doctor --model`
  measured to be the faster here, if it was run (`extra buffers` in the results);
* `one by one`: llama-cpp-python's `Llama`, set well (batch 512, flash attention, a context that
  holds the prompts), one call at a time, each of which keeps what it shares with the one before;
  it always takes llama.cpp's own layout;
* servers of the same model that speak OpenAI's protocol, where they are named: `llama-server`
  (`-c 8192 -np 8 --kv-unified -t 2`), llama-cpp-python's batched `examples/server/server.py`.

The contestants take turns at each question, so that a slower spell of the machine meets all. Each
method has questions of its own: a server keeps what it read for the method before.
Seconds on the clock for all questions, or with `--clock cpu` of this process on a processor, which
other work on the machine hardly changes: for one thread, as two wait for each other busily, and
without servers, which are other processes. `read` is the share of prompt and reply tokens that our
engine computed, the rest stood in its cache. `reading` is how many of its seconds `one by one` spent
on reading prompts: where calls share little, whoever decodes them together saves some of the others
at most, so that seconds / reading bounds what can be gained. Replies are held to no grammar, and a model's ties may
fall differently in a batch, so that the calls of a method can differ by a few. Goal: 1.5 times as
fast as one by one for `post_fusion` and `blendfilter`, and never slower. Adds to
`benchmarks/results/llamacpp_methods.json` under the number of threads and, where the library uses
it, AVX-512.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr
from rich.console import Console
from rich.table import Table

from ragweave.datasets import Dataset, open_dataset
from ragweave.graphs import METHODS, build_graph
from ragweave.llamacpp import LlamaCppChat
from ragweave.llamacpp.binding import physical_cores
from ragweave.llamacpp.guard import system_info
from ragweave.tools.models import chat_model
from ragweave.tools.models.specs import read_settings
from ragweave.tools.retrieval import Bm25Retriever, PassageRetriever

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "hotpotqa" / "hotpot-dev-200.jsonl.gz"
RESULTS = Path(__file__).parent / "results" / "llamacpp_methods.json"
ROWS: dict[str, dict[str, Any]] = {
    "post_fusion": {},
    "blendfilter": {},
    "pf_concat": {},
    "concat": {},
    "concat, ten samples": {"samples": 10},
}
"""A row's method and options: passages apart, three filters of shared texts, Concat as the
distiller behind them, and samples of one prompt."""


class OneByOne(BaseChatModel):
    """llama-cpp-python's own class behind a lock, as it serves one call at a time."""

    path: Path
    threads: int
    clock: Callable[[], float]
    _llama: Any = PrivateAttr()
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _reading: float = PrivateAttr(default=0.0)

    def model_post_init(self, _context: object) -> None:
        """Load the model."""
        from llama_cpp import Llama

        def timed(tokens: Sequence[int]) -> None:
            begun = self.clock()
            evaluate(tokens)
            if len(tokens) > 1:
                self._reading += self.clock() - begun

        self._llama = Llama(
            str(self.path),
            n_ctx=8192,
            n_batch=512,
            n_threads=self.threads,
            n_threads_batch=self.threads,
            n_gpu_layers=-1,
            flash_attn=True,
            verbose=False,
        )
        evaluate, self._llama.eval = self._llama.eval, timed

    @property
    def reading(self) -> float:
        """Seconds spent on reading prompts so far."""
        return self._reading

    @property
    def _llm_type(self) -> str:
        return "one by one"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        temperature: float = 0.0,
        max_tokens: int = 512,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager, kwargs
        with self._lock:
            reply = self._llama.create_chat_completion(
                convert_to_openai_messages(messages),
                stop=stop or [],
                temperature=temperature,
                max_tokens=max_tokens,
            )
        spent = reply["usage"]
        usage = UsageMetadata(
            input_tokens=spent["prompt_tokens"],
            output_tokens=spent["completion_tokens"],
            total_tokens=spent["total_tokens"],
        )
        text = reply["choices"][0]["message"]["content"] or ""
        message = AIMessage(text, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def forget(self) -> None:
        """Forget the last prompt, so that the next one is read whole."""
        self._llama.reset()

    def close(self) -> None:
        """Free the model."""
        self._llama.close()


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def ask(
    model: Any,
    row: str,
    question: str,
    retriever: PassageRetriever,
    clock: Callable[[], float],
) -> dict[str, float]:
    """Answer a question; return seconds, calls and tokens."""
    graph = build_graph(
        METHODS[row.partition(",")[0]],
        model=model,
        retriever=retriever,
        constrain=False,
        ask_again=False,
        **ROWS[row],
    )
    begun = clock()
    spent = graph.invoke({"question": question})["usage"]
    seconds = clock() - begun
    tokens = spent["input_tokens"] + spent["output_tokens"]
    return {"seconds": seconds, "calls": spent["calls"], "tokens": tokens}


def measure(
    row: str, others: dict[str, Any], options: argparse.Namespace, data: Dataset
) -> dict[str, dict[str, Any]]:
    """Return each contestant's sums over the questions.

    Our engine is new for each row, and `one by one` forgets, so that no method is warmed by another.
    """
    first = list(ROWS).index(row) * options.questions
    questions = [one.question for one in islice(data, first, first + options.questions)]
    retriever = Bm25Retriever.from_documents(data.corpus())
    chats = {label: engine(options, given) for label, given in contestants(options).items()}
    before = {label: chat.engine.computed for label, chat in chats.items()}
    models = {**chats, **others}
    alone, clock = others["one by one"], CLOCKS[options.clock]
    alone.forget()
    read = alone.reading
    found: dict[str, dict[str, Any]] = {name: {} for name in models}
    for question in questions:
        for name, model in models.items():
            for key, value in ask(model, row, question, retriever, clock).items():
                found[name][key] = round(found[name].get(key, 0) + value, 2)
    found["one by one"]["reading"] = round(alone.reading - read, 2)
    for label, chat in chats.items():
        ours = found[label]
        ours["read"] = round((chat.engine.computed - before[label]) / ours["tokens"], 3)
        ours["extra buffers"] = "extra buffers off" not in chat.engine.placement
        chat.close()
    return found


def contestants(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return our engine's settings by what the results call them."""
    return {"ours": {}, **{f"ours, {text}": read_settings(text) for text in options.ours}}


def engine(options: argparse.Namespace, given: dict[str, Any]) -> LlamaCppChat:
    """Return our engine, warm."""
    chat = LlamaCppChat(
        path=str(options.model), n_ctx=8192, n_threads=options.threads, temperature=0.0, **given
    )
    chat.invoke("warm up", max_tokens=2)
    return chat


def show(console: Console, rows: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print seconds, and the others' as times ours."""
    others = [name for name in next(iter(rows.values())) if name != "ours"]
    table = Table("method", "ours, s", "read", *others, "at most, where little is shared")
    for row, found in rows.items():
        ours, alone = found["ours"], found["one by one"]
        times = (f"{found[name]['seconds'] / ours['seconds']:.2f} times" for name in others)
        most = f"{alone['seconds'] / alone['reading']:.2f} times" if "reading" in alone else ""
        table.add_row(row, f"{ours['seconds']:.1f}", f"{ours['read']:.0%}", *times, most)
    console.print(table)


def main() -> None:
    """Measure all contestants in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--model", type=Path, required=True, help="an instruct model, GGUF")
    add("--threads", type=int, default=physical_cores())
    add("--questions", type=int, default=4)
    add("--clock", choices=list(CLOCKS), default="wall")
    add("--rows", default=";".join(ROWS), help="separated by ;")
    add("--ours", action="append", default=[], help="our engine with n_kept=4096&cache_ram=0 too")
    add("--server", action="append", default=[], help="NAME=URL of a server of the same model")
    options = parser.parse_args()
    data = open_dataset(f"hotpotqa:{DATA}")
    if options.clock == "cpu" and (options.server or options.threads > 1):
        parser.error("--clock cpu goes with --threads 1 and without --server")
    alone = OneByOne(path=options.model, threads=options.threads, clock=CLOCKS[options.clock])
    others: dict[str, Any] = {"one by one": alone}
    for one in options.server:
        name, _, url = one.partition("=")
        others[name] = chat_model(f"openai:{options.model.stem}?base_url={url}")
    for model in others.values():
        model.invoke("warm up", max_tokens=2)
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    key = f"{options.model.stem}, {options.threads} threads, {options.questions} questions"
    key += ", AVX-512" if "AVX512 = 1" in system_info() else ""
    key += ", processor time" if options.clock == "cpu" else ""
    rows: dict[str, dict[str, dict[str, Any]]] = dict(known.get(key, {}))
    for row in options.rows.split(";"):
        rows[row] = measure(row, others, options, data)
        RESULTS.write_text(json.dumps({**known, key: rows}, indent=1) + "\n", encoding="utf-8")
        show(Console(), rows)
    alone.close()


if __name__ == "__main__":
    main()
