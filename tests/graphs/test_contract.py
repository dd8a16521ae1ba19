"""Every method keeps the contract."""

from __future__ import annotations

from pathlib import Path

from ragweave.testing import MethodTests, ModelCall, unsure
from ragweave.testing.store import WordEmbeddings


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
    looping = [f"Action 1: Search[card {number}]" for number in range(9)]

    def reply(self, call: ModelCall) -> str:
        searched = "Observation 1" in call.text.rpartition("Question: ")[2]
        return "Action 2: Finish[Ada Brenner]" if searched else "Thought 1: I look.\nAction 1: Search[bridge at Alden]"


class TestSelfAsk(MethodTests):
    method = "self_ask"
    looping = [f"Follow up: What is on card {number}?" for number in range(9)]

    def reply(self, call: ModelCall) -> str:
        if call.node == "read":
            return "It was Ada Brenner."
        searched = "Intermediate answer:" in call.text.rpartition("Question: ")[2]
        return "So the final answer is: Ada Brenner" if searched else "Yes.\nFollow up: Who built the bridge?"


class TestFlare(MethodTests):
    method = "flare"
    looping = [unsure(f"Bob built bridge {number}.", Bob=0.1) for number in range(9)]
    replies = (unsure("Bob built it. So the answer is Bob.", Bob=0.1), "It was Ada. So the answer is Ada Brenner.")


class TestSelfEval(MethodTests):
    method = "self_eval"
    replies = {"need": "Yes", "answer": "Ada Brenner"}


class TestSkrKnn(MethodTests):
    method = "skr_knn"
    replies = ["Ada Brenner"]
    options = {"training": str(Path(__file__).with_name("needed.jsonl"))}
    arguments = {"embeddings": WordEmbeddings(512)}


class TestUncertaintyGate(MethodTests):
    method = "uncertainty_gate"
    replies = {"gate": unsure("Bob", Bob=0.5), "answer": "Ada Brenner"}


class TestUncertaintyGateOverSamples(TestUncertaintyGate):
    replies = {"gate": "Unknown", "answer": "Ada Brenner"}
    options = {"gate": "variance"}


class TestSlimPlmByUncertainty(TestSlimPlm):
    replies = {**TestSlimPlm.replies, "gate": unsure("Bob", Bob=0.1), "direct": "Ada Brenner"}
    options = {"route": "uncertainty"}


class TestAdaptiveRag(MethodTests):
    method = "adaptive_rag"
    replies = {"classify": "one", "answer_cot": "It was she. So the answer is Ada Brenner."}


class TestAdaptiveRagInManyRounds(MethodTests):
    method = "adaptive_rag"
    replies = {
        "classify": "several",
        "reason": "So the answer is: Ada Brenner.",
        "answer_cot": "It was she. So the answer is Ada Brenner.",
    }


class TestResearch(MethodTests):
    method = "research"
    looping = {
        "plan": "1. When was it built?\n2. Who paid for it?\n3. Who drew it?\n4. How long is it?",
        "write": "It is long.",
    }
    replies = {"plan": "1. When was the bridge at Alden built?", "write": "Ada Brenner built the bridge in 1931."}
    answer = (
        "# Who built the bridge at Alden?\n\nAda Brenner built the bridge in 1931.\n\n"
        "## When was the bridge at Alden built?\n\nAda Brenner built the bridge in 1931."
    )


class TestConcatByFusion(MethodTests):
    method = "concat"
    options = {"query": "fusion"}
    replies = {"retrieve": "Alden bridge builder\ngranite arches engineer", "concat": "Ada Brenner"}
