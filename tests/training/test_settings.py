"""Settings that have no effect on a kind are refused where a training is planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.trained import PartRole
from ragweave.training.train import plan_training

for module in (
    "torch",
    "sentence_transformers",
    "sklearn",
    "accelerate",
    "peft",
    "trl",
    "datasets",
):
    pytest.importorskip(module)

TEXT = "It was opened in 1931. It rained."
ROWS: dict[PartRole, dict[str, Any]] = {
    "judge": {"draft": "1931"},
    "filter": {
        "answers": ["1931"],
        "passages": [{"id": "p", "title": "", "text": TEXT}],
        "spans": [{"passage_id": "p", "start": 0, "end": 22, "text": TEXT[:22], "score": 1.0}],
    },
}
CASES: list[tuple[PartRole, str, str, object, bool]] = [
    ("judge", "seq2seq", "lora_rank", 8, False),
    ("filter", "seq2seq", "lora_dropout", 0.0, False),
    ("filter", "causal-lora", "lora_alpha", 8, True),
    ("filter", "seq2seq", "max_output", 64, True),
    ("judge", "cross-encoder", "lora_alpha", 8, False),
    ("judge", "cross-encoder", "max_output", 64, False),
    ("judge", "cross-encoder", "recall", 0.9, False),
    ("judge", "cross-encoder", "hard_negatives", 0.0, False),
    ("filter", "cross-encoder", "recall", 0.9, True),
    ("filter", "cross-encoder", "hard_negatives", 0.0, True),
    ("judge", "cross-encoder", "gradient_checkpointing", True, True),
    ("filter", "span-encoder", "gradient_checkpointing", True, True),
    ("filter", "span-encoder", "max_output", 64, False),
    ("filter", "span-encoder", "lora_rank", 8, False),
    ("judge", "linear", "max_output", 64, False),
]


@pytest.mark.parametrize(("role", "kind", "name", "value", "used"), CASES)
def test_what_has_no_effect_is_refused(
    tmp_path: Path, role: PartRole, kind: str, name: str, value: object, used: bool
) -> None:
    rows = [
        {"id": str(at), "question": f"When {at}?", "known": bool(at % 2), **ROWS[role]}
        for at in range(4)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    def settled(**settings: object) -> Any:
        return plan_training(
            role, tmp_path / "rows.jsonl", tmp_path / "p", kind=kind, settings=settings
        ).settings

    usual = getattr(settled(), name)
    assert getattr(settled(**{name: usual}), name) == usual
    if used:
        assert getattr(settled(**{name: value}), name) == value
        return
    with pytest.raises(UsageError, match=f"a {kind} {role} is trained without {name}: leave it"):
        settled(**{name: value})
