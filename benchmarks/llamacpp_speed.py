"""Local models: many calls at once against one by one, on a synthetic GGUF of 135M parameters.

    python benchmarks/llamacpp_speed.py                         # all physical cores, wall time
    python benchmarks/llamacpp_speed.py --threads 1 --clock cpu  # on a machine that is busy

Against `ChatLlamaCpp` of langchain-community with its defaults (but a context that holds the
prompts: 512 tokens would refuse some), and against a well-set llama-cpp-python (batch 512, flash
attention) called one by one. Weights are random, so only time is measured; `llamacpp_methods.py`
runs whole methods with a real model, a 0.5B. Goals: ten samples of one long prompt within 1.4 times
one sample, CXMI 10 times faster than scored one by one, 1 ms a token for log-probabilities at 152k
entries. Ratios come from one run. Writes
`benchmarks/results/llamacpp_speed.json`; says so where llama.cpp or a GPU is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import tiny_gguf
from ragweave.llamacpp import LlamaCppChat
from ragweave.llamacpp.binding import physical_cores
from ragweave.llamacpp.sampling import best, log_normaliser
from ragweave.llamacpp.scorer import LlamaCppScorer

RESULTS = Path(__file__).parent / "results" / "llamacpp_speed.json"
SHAPE = tiny_gguf.Shape(30, 576, 9, 3, 1536, 8192, 49152)
RULES = "Answer the question with the passages below. If the answer is not there, say Unknown. "
WORDS = "the question and the answer stand in the passages of the document "
SECONDS = dict[str, float]


def passage(number: int, tokens: int) -> str:
    """Return text of about `tokens` tokens that no other number gives."""
    return "".join(f"{number} {i} {WORDS}" for i in range(max(1, round(tokens / 16))))


FUSION = [RULES * 3 + passage(i, 400) for i in range(5)]
BLEND = [RULES * 2 + passage(i, 150 + 60 * i) for i in range(11)]
LONG = RULES + passage(0, 1300)
SENTENCES = [RULES * 2 + passage(i, 24) + "the user asks what is relevant" for i in range(50)]
OUTPUT = " the model reads the text"
CXMI = [p for s in SENTENCES for p in ((s, OUTPUT), (RULES * 2 + "the user asks", OUTPUT))]


class Ours:
    """This package: all prompts at once."""

    def __init__(self, path: Path, threads: int, parallel: int) -> None:
        self.chat = LlamaCppChat(
            path=path, n_ctx=8192, n_threads=threads, n_parallel=parallel, temperature=1.0, seed=1
        )
        self.chat.invoke("warm up", max_tokens=2)

    def ask(self, prompts: list[str], tokens: int) -> None:
        config = {"max_concurrency": len(prompts)}
        self.chat.batch(prompts, config=config, max_tokens=tokens)

    def score(self, pairs: list[tuple[str, str]]) -> None:
        LlamaCppScorer(self.chat, end_token=False).score(pairs)

    def close(self) -> None:
        self.chat.close()


class OneByOne:
    """llama-cpp-python's own class, set well, one prompt after the other."""

    def __init__(self, path: Path, threads: int) -> None:
        from llama_cpp import Llama

        common: dict[str, Any] = {"model_path": str(path), "n_threads": threads, "verbose": False}
        common |= {"n_threads_batch": threads, "n_batch": 512, "flash_attn": True}
        common["n_gpu_layers"] = -1
        self.llama = Llama(n_ctx=4096, **common)
        self.scorer = Llama(n_ctx=512, logits_all=True, **common)
        self.ask(["warm up"], 2)

    def ask(self, prompts: list[str], tokens: int) -> None:
        for prompt in prompts:
            message = {"role": "user", "content": prompt}
            self.llama.create_chat_completion([message], max_tokens=tokens, temperature=1.0)

    def score(self, pairs: list[tuple[str, str]]) -> None:
        for prompt, continuation in pairs:
            head = self.scorer.tokenize(prompt.encode(), add_bos=False)
            tail = self.scorer.tokenize(continuation.encode(), add_bos=False)
            self.scorer.reset()
            self.scorer.eval([*head, *tail[:-1]])
            rows = self.scorer.scores[len(head) - 1 : len(head) + len(tail) - 1]
            sum(float(row[t]) - log_normaliser(row) for row, t in zip(rows, tail, strict=True))

    def score_as_documented(self, pairs: list[tuple[str, str]]) -> None:
        """Score by the log-probabilities that a completion returns."""
        for prompt, continuation in pairs:
            self.scorer.create_completion(
                prompt + continuation, echo=True, logprobs=1, max_tokens=1
            )

    def close(self) -> None:
        self.llama.close()
        self.scorer.close()


class Community:
    """ChatLlamaCpp with its defaults but for the context."""

    def __init__(self, path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from langchain_community.chat_models import ChatLlamaCpp

            self.chat = ChatLlamaCpp(model_path=str(path), n_ctx=4096, verbose=False)

    def ask(self, prompts: list[str], tokens: int) -> None:
        chat = self.chat.model_copy(update={"max_tokens": tokens})
        for prompt in prompts:
            chat.invoke(prompt)


def measure(
    path: Path, threads: int, parallel: int, timed: Callable[..., float]
) -> dict[str, SECONDS]:
    """Time every task with every contestant, in seconds."""
    out: dict[str, SECONDS] = {}
    ours, single = Ours(path, threads, parallel), OneByOne(path, threads)
    tasks = {"post_fusion_5x400": (FUSION, 32), "blendfilter_11": (BLEND, 32)}
    for name, (prompts, tokens) in tasks.items():
        out[name] = {
            "ours": timed(ours.ask, prompts, tokens),
            "one_by_one": timed(single.ask, prompts, tokens),
        }
    out["one_sample"] = {"ours": timed(ours.ask, ["one " + LONG], 16)}
    out["ten_samples"] = {
        "ours": timed(ours.ask, ["ten " + LONG] * 10, 16),
        "one_by_one": timed(single.ask, ["ten " + LONG] * 10, 16),
    }
    few = CXMI[:4]
    documented = timed(single.score_as_documented, few) * len(CXMI) / len(few)
    out["cxmi_50"] = {
        "ours": timed(ours.score, CXMI),
        "one_by_one": timed(single.score, CXMI),
        "as_documented": documented,
    }
    ours.close()
    single.close()
    if find_spec("langchain_community"):
        community = Community(path)
        for name, (prompts, tokens) in tasks.items():
            out[name]["community"] = (
                timed(community.ask, [prompts[0], prompts[-1]], tokens) * len(prompts) / 2
            )
    return out


def logprob_ms(entries: int = 152_064) -> SECONDS:
    """Time the log-probability of a token with its five likeliest rivals, in milliseconds."""
    from llama_cpp import Llama

    row = np.random.default_rng(0).standard_normal(entries).astype(np.float32)

    def ours() -> None:
        log_normaliser(row)
        best(row, 5)

    def theirs() -> None:
        logs = Llama.logits_to_logprobs(row).tolist()
        sorted(zip(logs, range(entries), strict=True), reverse=True)

    def each(call: Callable[[], None], times: int) -> float:
        start = time.process_time()
        for _ in range(times):
            call()
        return (time.process_time() - start) / times * 1000

    return {"ours": each(ours, 50), "sorted_in_python": each(theirs, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--parallel", type=int, default=16, help="n_parallel")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--numbers", default="f16,q8_0")
    options = parser.parse_args()
    console = Console()
    if not (find_spec("llama_cpp") and find_spec("gguf")):
        console.print("llama-cpp-python or gguf is not installed: nothing measured")
        return
    import llama_cpp

    gpu = bool(llama_cpp.llama_supports_gpu_offload())
    console.print("GPU: all layers offloaded" if gpu else "GPU: none seen, measured on the CPU")
    clock = time.process_time if options.clock == "cpu" else time.perf_counter

    def timed(call: Callable[..., None], *arguments: Any) -> float:
        start = clock()
        call(*arguments)
        return clock() - start

    found: dict[str, Any] = {
        "gpu": gpu,
        "threads": options.threads,
        "parallel": options.parallel,
        "clock": options.clock,
    }
    found["logprob_ms_at_152k"] = logprob_ms()
    for numbers in options.numbers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "synthetic.gguf"
            tiny_gguf.write(path, SHAPE, numbers=numbers, end_bias=-50.0, high_bias=-50.0)
            found[numbers] = measure(path, options.threads, options.parallel, timed)
    report(console, found, options.numbers.split(","))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def report(console: Console, found: dict[str, Any], kinds: list[str]) -> None:
    """Print seconds, ratios and goals."""
    table = Table("task", "numbers", "ours, s", "others, times ours")
    for kind in kinds:
        for task, seconds in found[kind].items():
            ours = seconds["ours"]
            others = ", ".join(f"{k} {v / ours:.2f}" for k, v in seconds.items() if k != "ours")
            table.add_row(task, kind, f"{ours:.2f}", others)
    console.print(table)
    for kind in kinds:
        tasks = found[kind]
        samples = tasks["ten_samples"]["ours"] / tasks["one_sample"]["ours"]
        cxmi = tasks["cxmi_50"]["one_by_one"] / tasks["cxmi_50"]["ours"]
        found[kind]["ratios"] = {"ten_samples_to_one": samples, "cxmi_speed_up": cxmi}
        console.print(f"{kind}: ten samples cost {samples:.2f} times one (goal: under 1.4)")
        console.print(f"{kind}: CXMI {cxmi:.1f} times faster than one by one (goal: 10)")
    logs = found["logprob_ms_at_152k"]
    console.print(f"log-probabilities: {logs['ours']:.2f} ms a token (goal: under 1)")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
