"""What each step reads off a model's reply, as plain JSON: for recorded replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ragweave.nodes.blending import EXAMPLE_ANSWERS as REASONING_EXAMPLES
from ragweave.nodes.knowledge_filter import read_topic
from ragweave.nodes.react_reply import parse_react
from ragweave.nodes.replies import bare_text, read_answer
from ragweave.nodes.retrieval_decision import parse_need
from ragweave.nodes.self_ask import EXAMPLES as SELF_ASK
from ragweave.nodes.self_ask import parse_self_ask
from ragweave.tools.claims import parse_ids, parse_judgement, parse_rewrite
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.reply import Examples, PromptParts, examples_in

REASONING = ("cot", "pruning", "summary", "reason", "flare")
FREE = ("knowledge_filter", "draft", "external", "internal", "read")


def as_meant(record: dict[str, Any]) -> bool:
    """Say whether a step reads off a recorded reply what a reader takes it to say (`meant`).

    Texts are compared by their normalised words.
    """
    read = _words(json.loads(json.dumps(read_record(record))))
    return bool(read == _words(record["meant"]))


def _words(value: Any) -> Any:
    if isinstance(value, list):
        return [_words(one) for one in value]
    return normalize_answer(value) if isinstance(value, str) else value


def read_record(record: dict[str, Any]) -> Any:
    """Read a recorded reply as its step does."""
    node, reply = record["node"], record["reply"]
    plain: dict[str, Callable[[str], object]] = {
        "judge": parse_judgement,
        "judge_claim": parse_judgement,
        "need": parse_need,
        "topic": read_topic,
    }
    if node in plain:
        return plain[node](reply)
    if node == "rewrite":
        read = parse_rewrite(reply, record["question"])
        asked = [[one.question, one.query] for one in read.questions]
        return asked + [[one.claim, one.query] for one in read.claims]
    if node == "filter_context":
        return parse_ids(reply, len(record["titles"]))
    names_ids = "ONLY the ids" in record["prompt"][-1][1]
    if node == "knowledge_filter" and names_ids:
        return parse_ids(reply, len(record["titles"]), record["titles"])
    if node in FREE:
        return "text" if bare_text(reply) else ""
    return _read_step(record)


def _read_step(record: dict[str, Any]) -> Any:
    """Read a step of a chain, or an answer."""
    node, reply, kind = record["node"], record["reply"], record["answer_type"]
    seen = str(record["prompt"][-1][1])
    if node == "react":
        before, _, own = seen.rpartition("Question: ")
        shown = examples_in(before, answers=r"Finish\[(.+)\]", queries=r"Search\[(.+)\]")
        parts = PromptParts(record["question"], shown, own)
        said = parse_react(reply, kind, parts, observed="Observation" in own)
        return [said.action, said.argument]
    if node == "self_ask":
        own = seen.rpartition("Question: ")[2]
        step = parse_self_ask(
            reply,
            kind,
            PromptParts(record["question"], SELF_ASK, own),
            first="Follow up" not in own,
        )
        return [step.kind, step.text]
    answers = REASONING_EXAMPLES if node == "reason" else ("1891",) if node in REASONING else ()
    observed = seen.rpartition("<passage 1")[2] if node in ("pruning", "summary") else seen
    parts = PromptParts(record["question"], Examples(answers=answers), observed)
    return read_answer(reply, kind, parts, reasons=node in REASONING).answer
