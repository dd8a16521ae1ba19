"""Replies recorded from real small models, at every step, and what a reader takes them to say.

`tests/recorded/README.md` tells how they were recorded and annotated.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.reply_readers import as_meant, read_record

RECORDED = Path(__file__).parents[1] / "recorded"
MODELS = [
    RECORDED / f"{name}.jsonl"
    for name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m")
]
RECORDS: list[dict[str, Any]] = [
    json.loads(line) for path in MODELS for line in path.read_text("utf-8").splitlines()
]
STEPS = sorted({one["node"] for one in RECORDS})


def test_every_step_is_there() -> None:
    steps = Counter(one["node"] for one in RECORDS)
    asked = {"rewrite", "judge", "judge_claim", "need", "topic", "knowledge_filter", "react"}
    answers = {"direct", "cot", "concat", "post_fusion", "pruning", "summary", "distill", "reason"}
    others = {"self_ask", "read", "flare", "filter_context", "short_answer", "draft", "external"}
    newer = {"grade", "keywords", "refine", "propose", "summarise", "verify", "rank", "recall"}
    newer |= {"chain_of_note", "answer_cot", "classify", "gate", "consolidate"}
    assert asked | answers | others | {"internal", "answer", "generate"} <= steps.keys()
    assert newer <= steps.keys()
    assert min(steps[one] for one in newer) >= 2
    assert steps.total() >= 300


@pytest.mark.parametrize("step", STEPS)
def test_at_least_95_in_100_are_read_as_meant(step: str) -> None:
    records = [one for one in RECORDS if one["node"] == step]
    wrong = [(one["reply"], read_record(one)) for one in records if not as_meant(one)]
    assert len(wrong) <= 0.05 * len(records), f"{len(wrong)} of {len(records)}: {wrong}"


def test_all_replies_that_a_grammar_held_are_read_as_meant() -> None:
    held = [one for one in RECORDS if one["grammar"]]
    assert {"react", "self_ask", "rewrite", "judge", "need"} <= {one["node"] for one in held}
    assert [(one["reply"], read_record(one)) for one in held if not as_meant(one)] == []
