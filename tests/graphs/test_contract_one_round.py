"""The contract of the methods that retrieve once at most and ask."""

from __future__ import annotations

from ragweave.testing import MethodTests, ModelCall

REASONING = "The card on the bridge names her. So the answer is Ada Brenner."


def read_alone(call: ModelCall) -> str:
    """Answer from the passage that says it, and from no other."""
    return "Ada Brenner" if "built by Ada Brenner" in call.last else "Unknown"


class TestDirect(MethodTests):
    method = "direct"
    replies = ["Ada Brenner"]


class TestCot(MethodTests):
    method = "cot"
    replies = [REASONING]


class TestConcat(MethodTests):
    method = "concat"
    replies = ["Ada Brenner"]


class TestPostFusion(MethodTests):
    method = "post_fusion"

    def reply(self, call: ModelCall) -> str:
        return read_alone(call)


class TestPruning(MethodTests):
    method = "pruning"
    replies = [REASONING]


class TestSummary(MethodTests):
    method = "summary"
    replies = [REASONING]


class TestConcatPf(MethodTests):
    method = "concat_pf"
    replies = ["Ada Brenner"]


class TestConcatPfFallingBack(MethodTests):
    method = "concat_pf"

    def reply(self, call: ModelCall) -> str:
        return "Unknown" if call.node == "concat" else read_alone(call)


class TestPfConcat(MethodTests):
    method = "pf_concat"

    def reply(self, call: ModelCall) -> str:
        return "Ada Brenner" if call.node == "distill" else read_alone(call)
