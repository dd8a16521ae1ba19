"""Every method keeps the contract."""

from __future__ import annotations

from ragweave.testing import MethodTests, ModelCall


class TestConcat(MethodTests):
    method = "concat"
    replies = ["Ada Brenner"]


class TestConcatPf(MethodTests):
    method = "concat_pf"
    replies = {"concat": "Unknown", "post_fusion": "Ada Brenner"}


class TestPostFusion(MethodTests):
    method = "post_fusion"
    replies = ["Ada Brenner"]


class TestPfConcat(MethodTests):
    method = "pf_concat"
    replies = ["Ada Brenner"]


class TestDirect(MethodTests):
    method = "direct"
    replies = ["Ada Brenner"]


class TestCrag(MethodTests):
    method = "crag"
    replies = {"grade": "Ambiguous", "refine": "1, 2", "keywords": "Query: Alden bridge", "answer": "Ada Brenner"}


class TestSlimPlm(MethodTests):
    method = "slimplm"
    replies = {
        "draft": "It was built by Ada Brenner.",
        "judge": "<Known(False)>",
        "judge_claim": "<Known(False)>",
        "rewrite": "<Claim> Ada Brenner built it. <Query> Ada Brenner bridge",
        "answer": "Ada Brenner",
    }


class TestFilco(MethodTests):
    method = "filco"
    replies = ["Ada Brenner"]


BLEND = {
    "external": "Ada Brenner built it. So the answer is Ada Brenner.",
    "internal": "The bridge was built by Ada Brenner.",
    "topic": "bridges",
    "check": "Knowledge 1 helps.",
    "choose": "1",
    "reason": "Ada Brenner built it. So the answer is Ada Brenner.",
    "short_answer": "Ada Brenner",
}


class TestBlendFilter(MethodTests):
    method = "blendfilter"
    replies = BLEND


class TestAdaptive(MethodTests):
    method = "adaptive"
    replies = {**BLEND, **TestSlimPlm.replies, "post_fusion": "Ada Brenner"}


class TestReact(MethodTests):
    method = "react"

    def reply(self, call: ModelCall) -> str:
        searched = "Observation 1" in call.text.rpartition("Question: ")[2]
        return "Action 2: Finish[Ada Brenner]" if searched else "Thought 1: I look.\nAction 1: Search[bridge at Alden]"


class TestSelfAsk(MethodTests):
    method = "self_ask"

    def reply(self, call: ModelCall) -> str:
        if call.node == "read":
            return "It was Ada Brenner."
        searched = "Intermediate answer:" in call.text.rpartition("Question: ")[2]
        return "So the final answer is: Ada Brenner" if searched else "Yes.\nFollow up: Who built the bridge?"
