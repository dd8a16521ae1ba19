"""CXMI of silver sentences under a language model, for the filter to be distilled from.

    python benchmarks/cxmi_scores.py prepare [--rows 2000]
    python benchmarks/cxmi_scores.py prepare --published         # with the 1.5B's scores; or score
    python benchmarks/cxmi_scores.py score --scorer llamacpp:MODEL.gguf?n_gpu_layers=-1
    python benchmarks/trained_filter.py --only silver,further,distilled,distilled-further

`prepare` draws silver rows (SQuAD 2.0's sample and NQ-open, none of which shares a question or a
passage with what is measured) and writes them to `benchmarks/.trained_filter/cxmi-rows.jsonl`.
`score` adds, a row, log M(o | t + q) - log M(o | q) of each of its sentences t that holds an answer
(FILCO, section 2.2) to `cxmi-scores.jsonl` beside it; it goes on where it was broken off, and needs
nothing but that folder and the scorer (`hf:`, `llamacpp:` or `openai:`). `distilled` trains on them:
of the sentences that hold an answer the one with the highest CXMI is kept, so that both measures are
fused, and those that hold the answer's words without helping become hard negatives. The other
sentences can't be kept, so that they need no score: of 10,343 in 2,000 passages 2,695 do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import sys
from pathlib import Path
from typing import cast

from ragweave.tools.filters import cxmi
from ragweave.tools.scorers.specs import LogprobScorer, scorer_of_spec
from ragweave.training.encoders.pairs import sentences_of
from ragweave.training.rows import SilverRow, read_rows
from trained_filter import CXMI_ROWS, CXMI_SCORES, KEPT, passages, silver

PUBLISHED = Path(__file__).parent / "results" / "cxmi_scores.jsonl.gz"
"""The scores of the 2,000 rows by Qwen2.5-Coder-1.5B (Q4_K_M, llama.cpp on a CPU)."""


def prepare(count: int) -> None:
    """Draw rows that have an answer to score and several sentences to choose from."""
    KEPT.mkdir(exist_ok=True)
    (KEPT / ".gitignore").write_text("*\n")
    rows, counts = silver(["squad", "nq"], passages())
    fit = [row for row in rows if row["spans"] and len(sentences_of(row)) > 1]
    drawn = random.Random(0).sample(fit, min(count, len(fit)))
    CXMI_ROWS.write_text("".join(f"{json.dumps(row)}\n" for row in drawn), encoding="utf-8")
    found = [one for row in drawn for one in sentences_of(row)]
    print(
        f"{CXMI_ROWS}: {len(drawn)} of {len(fit)} rows; {len(found)} sentences, of which "
        f"{sum(one.keep for one in found)} hold an answer; {counts}"
    )


def unpack() -> None:
    """Put the published scores where `trained_filter.py` reads them."""
    with gzip.open(PUBLISHED) as packed, CXMI_SCORES.open("wb") as file:
        shutil.copyfileobj(packed, file)
    print(f"{CXMI_SCORES}: as published")


def scores_of(row: SilverRow, scorer: LogprobScorer) -> list[float | None]:
    """Return the CXMI of each sentence that holds an answer, for the first gold answer."""
    found = sentences_of(row)
    texts = [one.span["text"] for one in found if one.keep]
    scores = iter(cxmi(texts, row["question"], row["answers"][0], scorer)) if texts else iter(())
    return [next(scores) if one.keep else None for one in found]


def score(spec: str, limit: int | None) -> None:
    """Score the rows that have no score yet."""
    rows = [cast("SilverRow", row) for row in read_rows(CXMI_ROWS, "filter")][:limit]
    done = len(CXMI_SCORES.read_text("utf-8").splitlines()) if CXMI_SCORES.is_file() else 0
    scorer = scorer_of_spec(spec)
    with CXMI_SCORES.open("a", encoding="utf-8") as file:
        for number, row in enumerate(rows[done:], start=done + 1):
            file.write(json.dumps({"id": row["id"], "cxmi": scores_of(row, scorer)}) + "\n")
            file.flush()
            if number % 100 == 0 or number == len(rows):
                print(f"  {number}/{len(rows)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", nargs="?", default="prepare", choices=("prepare", "score"))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--published", action="store_true", help="prepare with the scores in results/")
    parser.add_argument("--scorer", help="what scores: hf:FOLDER, llamacpp:FILE, openai:NAME")
    parser.add_argument("--limit", type=int, help="score the first rows alone")
    options = parser.parse_args()
    if options.step == "prepare":
        prepare(options.rows)
        if options.published:
            unpack()
    elif options.scorer is None:
        print("name a --scorer", file=sys.stderr)
        return 2
    else:
        score(options.scorer, options.limit)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
