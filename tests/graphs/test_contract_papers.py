"""The contract of the papers' own methods, and of those that decide whether to retrieve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from tests.hash_embeddings import HashEmbeddings

from ragweave.testing import MethodTests, OptionCase, Setting

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


class Scores:
    """Scores both verdicts alike, but for a lead of one for the first."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [0.0 if "True" in verdict else -1.0 for _text, verdict in pairs]


MARGIN = {"margin": OptionCase(5.0, Setting(parts={"judge_scorer": Scores()}))}


class TestBlendFilter(MethodTests):
    method = "blendfilter"
    replies = {
        **BLENDING,
        "reason": "The card on the bridge names her. So the answer is Ada Brenner.",
        "short_answer": "Ada Brenner",
    }


class TestSlimPlm(MethodTests):
    method = "slimplm"
    replies = {**PROXY, "answer": "Ada Brenner", "direct": "Ada Brenner"}
    option_cases = MARGIN
    more_settings = [Setting(replies={**replies, "judge": "<Known(True)>"})]


class TestFilco(MethodTests):
    method = "filco"
    replies = {"generate": "Ada Brenner", "filter_context": "0"}
    option_cases = {"order": OptionCase("reversed", Setting(options={"filter": "full"}))}


class TestAdaptive(MethodTests):
    method = "adaptive"
    replies = {
        **PROXY,
        **BLENDING,
        "direct": "Unknown",
        "filter_context": "0",
        "answer": "Ada Brenner",
        "short_answer": "Ada Brenner",
        "post_fusion": "Ada Brenner",
    }
    option_cases = MARGIN
    more_settings = [
        Setting(replies={**replies, "judge": "<Known(True)>"}),
        Setting(replies={**replies, "judge": "<Known(True)>", "direct": "Ada Brenner"}),
        Setting(replies={**replies, "answer": "Unknown"}),
    ]


class TestSelfEval(MethodTests):
    method = "self_eval"
    replies = {"need": "Yes", "answer": "Ada Brenner"}
    more_settings = [Setting(replies={**replies, "need": "No"})]


class TestSkrKnn(MethodTests):
    method = "skr_knn"
    replies = ["Ada Brenner"]
    idle_options = {"embedding": "the embeddings object takes its place"}
    training: ClassVar[str] = ""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _training(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        path: Path = tmp_path_factory.mktemp("skr") / "training.jsonl"
        asked = {"Who built the bridge at Norhaven?": True, "Who built it?": False, "Why?": False}
        rows = [{"question": text, "needed": needed} for text, needed in asked.items()]
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        cls.training = str(path)

    @property
    def setting(self) -> Setting:
        parts = {"embeddings": HashEmbeddings()}
        return Setting(options={"training": self.training, "neighbours": 1}, parts=parts)
