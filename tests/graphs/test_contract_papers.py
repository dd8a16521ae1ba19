"""The contract of the papers' own methods, and of those that decide whether to retrieve."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from tests.hash_embeddings import HashEmbeddings

from ragweave.testing import MethodTests, OptionCase, Setting, unsure

PROXY = {
    "draft": "An engineer from Norhaven put it up.",
    "judge": "<Known(False)>",
    "rewrite": "<Questions> <Question(Whose work is it?)> <NeedSearch(True)> <Query(ferry bell)> "
    "<Question(Since when?)> <NeedSearch(True)> <Query(school of engineering)> </Questions> "
    "<Claim> Ada Brenner put it up <Query> builder of the bridge "
    "<Claim> It is of granite <Query> granite from Veld",
    "judge_claim": "<Known(False)>",
}
BLENDING = {
    "external": "It was put up in the thirties. So the answer is Ada Brenner.",
    "internal": "Bridges of that time were works of Norhaven's engineers.",
    "topic": "bridges",
    "knowledge_filter": "0, 1",
}


STRATEGYQA = Setting(options={"profile": "strategyqa"})


class Scores:
    """Scores one verdict above the other by one, and any other output by its text."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        verdicts = {"<Known(True)>": 0.0, "<Known(False)>": -1.0}
        return [verdicts.get(said, -(zlib.crc32(text.encode()) % 99)) for text, said in pairs]


MARGIN = {"margin": OptionCase(5.0, Setting(parts={"judge_scorer": Scores()}))}
LEAD = {
    "rerank": OptionCase(
        True, Setting(options={"filter": "lexical", "top": 8, "order": "reversed"})
    ),
    "encoder": OptionCase(
        "nobody/nothing-here", Setting(options={"filter": "provence"}), raises=True
    ),
    "lead": OptionCase(
        " Thus: ",
        Setting(
            options={"filter": "cxmi"},
            parts={"scorer": Scores()},
            input={"gold_answers": ["Ada Brenner"]},
        ),
    ),
}


DOUBTING_WORD = unsure("Ada built it and nobody else did so here", Ada=0.1)
"""Sure on the whole, and of one word not at all."""
IDLE_ROUTER = {"router": "needs a trained part: tests/training/encoders/test_router.py shows it"}


def gated(replies: dict[str, str]) -> dict[str, OptionCase]:
    """Return cases of the options that the uncertainty gate has."""
    setting = Setting(options={"route": "uncertainty"}, replies={**replies, "judge": DOUBTING_WORD})
    return {
        "route": OptionCase("uncertainty", Setting(replies=setting.replies)),
        "gate": OptionCase("least", setting),
        "gate_tokens": OptionCase(10, setting),
        "gate_samples": OptionCase(2, setting.with_options(gate="variance")),
        "route_threshold": OptionCase(0.01, setting),
    }


class TestBlendFilter(MethodTests):
    method = "blendfilter"
    replies = {
        **BLENDING,
        "reason": "The card on the bridge names her. So the answer is Ada Brenner.",
        "short_answer": "Ada Brenner",
    }
    option_cases = {
        "ask_again": OptionCase(False, Setting(replies={**replies, "short_answer": "<passage 1>"}))
    }
    more_settings = [STRATEGYQA]


class TestSlimPlm(MethodTests):
    method = "slimplm"
    replies = {**PROXY, "answer": "Ada Brenner", "direct": "Ada Brenner"}
    knowing = Setting(replies={**replies, "judge": "<Known(True)>", "direct": "Unknown"})
    echoing = Setting(replies={**replies, "answer": "Who built the bridge at Alden?"})
    idle_options = IDLE_ROUTER
    option_cases = {
        **MARGIN,
        **gated(replies),
        "second_look": OptionCase(False, knowing),
        "ask_again": OptionCase(False, echoing),
    }
    more_settings = [Setting(replies={**replies, "judge": "<Known(True)>"}), knowing]


class TestFilco(MethodTests):
    method = "filco"
    replies = {"generate": "Ada Brenner", "filter_context": "0"}
    option_cases = {**LEAD, "order": OptionCase("reversed", Setting(options={"filter": "full"}))}


class TestAdaptive(MethodTests):
    method = "adaptive"
    replies = {
        **PROXY,
        **BLENDING,
        "direct": "Unknown",
        "filter_context": "0",
        "answer": "The card on the bridge names her. So the answer is Ada Brenner.",
        "short_answer": "Ada Brenner",
        "post_fusion": "Ada Brenner",
    }
    knowing = Setting(replies={**replies, "judge": "<Known(True)>"})
    doubting = Setting(replies={**replies, "answer": "Unknown"})
    idle_options = IDLE_ROUTER
    option_cases = {
        **MARGIN,
        **LEAD,
        **gated(replies),
        "second_look": OptionCase(False, knowing),
        "fallback": OptionCase(False, doubting),
    }
    more_settings = [
        knowing,
        doubting,
        Setting(replies={**replies, "judge": "<Known(True)>", "direct": "Ada Brenner"}),
        STRATEGYQA,
    ]


class TestSelfEval(MethodTests):
    method = "self_eval"
    replies = {"need": "Yes", "answer": "Ada Brenner"}
    knowing = Setting(replies={"need": "No", "answer": "Unknown"})
    option_cases = {"second_look": OptionCase(False, knowing)}
    more_settings = [Setting(replies={**replies, "need": "No"}), knowing]


class TestSkrKnn(MethodTests):
    method = "skr_knn"
    replies = ["Ada Brenner"]
    idle_options = {"embedding": "the embeddings object takes its place"}
    files: ClassVar[list[str]] = []

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _training(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("skr")
        cls.files = [
            write_training(folder / "all.jsonl", 3),
            write_training(folder / "one.jsonl", 1),
        ]

    @property
    def setting(self) -> Setting:
        options = {"training": self.files[0], "neighbours": 2}
        return Setting(options=options, parts={"embeddings": HashEmbeddings()})

    @property
    def unknowing(self) -> Setting:
        options = {"training": self.files[0], "neighbours": 3}
        parts = {"embeddings": HashEmbeddings()}
        return Setting(options=options, parts=parts, replies=["Unknown"])

    @property
    def option_cases(self) -> dict[str, OptionCase]:
        return {
            "training": OptionCase(self.files[1], Setting(options={"prior": 0.7})),
            "neighbours": OptionCase(3),
            "second_look": OptionCase(False, self.unknowing),
        }


def write_training(path: Path, count: int) -> str:
    asked = {"Who built the bridge at Norhaven?": True, "Who built it?": False, "Why?": False}
    rows = [{"question": text, "needed": needed} for text, needed in asked.items()]
    path.write_text("\n".join(map(json.dumps, rows[:count])), "utf-8")
    return str(path)
