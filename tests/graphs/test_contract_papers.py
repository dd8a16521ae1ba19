"""The contract of the papers' own methods, and of those that decide whether to retrieve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from tests.hash_embeddings import HashEmbeddings

from ragweave.testing import MethodTests, OptionCase, Setting

PROXY = {
    "draft": "An engineer from Norhaven put it up.",
    "judge": "<Known(False)>",
    "rewrite": "<Claim> Ada Brenner put it up <Query> builder of the bridge <Claim> It is of granite"
    " <Query> granite from Veld",
    "judge_claim": "<Known(False)>",
}
BLENDING = {
    "external": "It was put up in the thirties. So the answer is Ada Brenner.",
    "internal": "Bridges of that time were works of Norhaven's engineers.",
    "topic": "bridges",
    "knowledge_filter": "0, 1",
}


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


class TestSlimPlmKnowing(MethodTests):
    method = "slimplm"
    replies = {**TestSlimPlm.replies, "judge": "<Known(True)>"}


class TestFilco(MethodTests):
    method = "filco"
    replies = {"generate": "Ada Brenner", "filter_context": "0"}


class TestAdaptive(MethodTests):
    method = "adaptive"
    replies = {
        **PROXY,
        **BLENDING,
        "direct": "Unknown",
        "answer": "Ada Brenner",
        "short_answer": "Ada Brenner",
        "post_fusion": "Ada Brenner",
    }


class TestSelfEval(MethodTests):
    method = "self_eval"
    replies = {"need": "Yes", "answer": "Ada Brenner"}


class TestSkrKnn(MethodTests):
    method = "skr_knn"
    replies = ["Ada Brenner"]
    training: ClassVar[str] = ""

    @pytest.fixture(autouse=True, scope="class")
    def _training(self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
        path: Path = tmp_path_factory.mktemp("skr") / "training.jsonl"
        asked = {"Who built the bridge at Norhaven?": True, "Who built it?": False, "Why?": False}
        rows = [{"question": text, "needed": needed} for text, needed in asked.items()]
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        type(self).training = str(path)

    @property
    def setting(self) -> Setting:
        parts = {"embeddings": HashEmbeddings()}
        return Setting(options={"training": self.training, "neighbours": 1}, parts=parts)
