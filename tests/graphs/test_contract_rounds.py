"""The contract of the methods that retrieve in rounds."""

from __future__ import annotations

from langchain_core.messages import AIMessage

from ragweave.testing import MethodTests, ModelCall, OptionCase, Setting, unsure

FREE_TEXT = {"constrain": "replies are free text, which no grammar holds"}


def in_the_fallback(setting: Setting, echoing: Setting) -> dict[str, OptionCase]:
    """Return the options that show where Concat answers for a chain without an end."""
    return {
        "wording": OptionCase("many", setting),
        "top_p": OptionCase(0.5, setting),
        "second_look": OptionCase(False, setting),
        "sufficient_context": OptionCase(True, setting),
        "ask_again": OptionCase(False, echoing),
    }


class TestIterRetgen(MethodTests):
    method = "iter_retgen"
    idle_options = FREE_TEXT
    more_settings = [Setting(options={"shots": 1}, finds=False)]

    def reply(self, call: ModelCall) -> str:
        return "It was put up in the thirties. So the answer is Ada Brenner."


class TestSelfAsk(MethodTests):
    method = "self_ask"
    cut_short = Setting(options={"rounds": 1})
    asking = {
        "self_ask": "Follow up: Whose work is the bridge at Alden?",
        "read": "It was Ada Brenner's work.",
        "concat": "Ada Brenner",
    }
    option_cases = in_the_fallback(
        Setting(options={"rounds": 1}, replies=asking),
        Setting(options={"rounds": 1}, replies={**asking, "concat": "<passage 1>"}),
    )
    more_settings = [Setting(options={"rounds": 1}, replies=asking)]

    def reply(self, call: ModelCall) -> str:
        asked = call.last.rpartition("Question: ")[2]
        if call.node == "read":
            return "She came from Norhaven." if "from" in asked else "It was Ada Brenner's work."
        if "Intermediate answer: She" in asked:
            return "So the final answer is: Ada Brenner."
        if "Intermediate answer: It" in asked:
            return "Follow up: Where did she come from?"
        return "Yes.\nFollow up: Whose work is the bridge at Alden?"


class TestReact(MethodTests):
    method = "react"
    cut_short = Setting(options={"max_steps": 2})
    searching = {"react": "Action 1: Search[the bridge at Alden]", "concat": "Ada Brenner"}
    option_cases = in_the_fallback(
        Setting(options={"max_steps": 2}, replies=searching),
        Setting(options={"max_steps": 2}, replies={**searching, "concat": "<passage 1>"}),
    )
    more_settings = [Setting(options={"max_steps": 2}, replies=searching)]

    def reply(self, call: ModelCall) -> str:
        asked = call.last.rpartition("Question: ")[2]
        if "Observation 2:" in asked:
            return "It is she.\nAction 3: Finish[Ada Brenner]"
        if "Observation 1:" in asked:
            return "I look her up.\nAction 2: Search[books on stone arches]"
        return "I look it up.\nAction 1: Search[the bridge at Alden]"


class TestFlare(MethodTests):
    method = "flare"
    option_cases = {
        "constrain": OptionCase(
            False,
            Setting(
                replies=["<passage 1>"],
                model={"offers_grammar": True},
                input={"answer_type": "yes_no"},
            ),
        ),
        "ask_again": OptionCase(False, Setting(replies=["<passage 1>"])),
    }
    more_settings = [Setting(replies=["<passage 1>", "Ada Brenner"])]
    cut_short = Setting(options={"rounds": 1})

    def reply(self, call: ModelCall) -> AIMessage | str:
        asked = call.last.rpartition("Question: ")[2]
        first = "The bridge is a work of the thirties."
        second = "Its builder came from Norhaven."
        if second in call.text:
            return "So the answer is Ada Brenner."
        if first in asked:
            return unsure(f"{second} So the answer is Ada Brenner.", Ada=0.3, Brenner=0.3)
        if "Search results" in call.last:
            return unsure(f"{first} {second} So the answer is Karl Oster.", Norhaven=0.3)
        return unsure(f"{first} So the answer is Karl Oster.", thirties=0.3)
