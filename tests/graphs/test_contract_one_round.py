"""The contract of the methods that retrieve once at most and ask."""

from __future__ import annotations

from ragweave.testing import MethodTests, ModelCall, OptionCase, Setting

RETRIEVING = Setting(options={"retrieve": True})
SHOWN = [Setting(options={"retrieve": True, "shots": 1})]
RETRIEVAL = {
    "k": OptionCase(2, RETRIEVING),
    "order": OptionCase("reversed", RETRIEVING),
    "sufficient_context": OptionCase(True, RETRIEVING),
}
REASONED = {"constrain": "what reasons first is held to no form"}
REASONING = "The card on the bridge names her. So the answer is Ada Brenner."


def read_alone(call: ModelCall) -> str:
    """Answer from two passages, and from no other; any passages are enough."""
    if call.last.endswith("Say Yes or No."):
        return "Yes"
    if "Sufficient Context: 1" in call.last:
        return '{"Sufficient Context": 1}'
    telling = "built by Ada Brenner", "The river Sorre runs"
    return "Ada Brenner" if any(one in call.last for one in telling) else "Unknown"


class TestDirect(MethodTests):
    method = "direct"
    more_settings = SHOWN
    option_cases = RETRIEVAL
    replies = ["Ada Brenner"]


class TestCot(MethodTests):
    method = "cot"
    more_settings = SHOWN
    option_cases = RETRIEVAL
    idle_options = REASONED
    replies = [REASONING]


class TestConcat(MethodTests):
    method = "concat"
    replies = ["Ada Brenner"]


class TestPostFusion(MethodTests):
    method = "post_fusion"
    idle_options = {"order": "each prompt shows one passage"}

    def reply(self, call: ModelCall) -> str:
        return read_alone(call)


class TestPruning(MethodTests):
    method = "pruning"
    idle_options = REASONED
    replies = [REASONING]


class TestSummary(MethodTests):
    method = "summary"
    idle_options = REASONED
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
