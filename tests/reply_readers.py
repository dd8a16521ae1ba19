"""What each step reads off a model's reply, as plain JSON: for recorded replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ragweave.nodes.adaptive_rag import parse_complexity
from ragweave.nodes.astute import parse_memory
from ragweave.nodes.blending import EXAMPLE_ANSWERS as REASONING_EXAMPLES
from ragweave.nodes.chain_of_note import read_noted
from ragweave.nodes.crag_reply import parse_grade, parse_keywords
from ragweave.nodes.ircot import EXAMPLES as IRCOT
from ragweave.nodes.ircot import next_sentence
from ragweave.nodes.knowledge_filter import read_topic
from ragweave.nodes.react_reply import parse_react
from ragweave.nodes.replies import bare_text, read_answer
from ragweave.nodes.retrieval_decision import parse_need
from ragweave.nodes.self_ask import EXAMPLES as SELF_ASK
from ragweave.nodes.self_ask import parse_self_ask
from ragweave.nodes.sure_prompts import EXAMPLES as SURE
from ragweave.nodes.sure_reply import parse_candidates, parse_preference, parse_validity
from ragweave.tools.claims import parse_ids, parse_judgement, parse_rewrite
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.reply import Examples, PromptParts, examples_in
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

REASONING = ("cot", "pruning", "summary", "reason", "flare")
FREE = ("knowledge_filter", "draft", "external", "internal", "read", "summarise", "consolidate")
CHAINS = ("ircot", "adaptive_rag")
"""Methods whose node `reason` writes one sentence."""
NOTED = {"chain_of_note": ("1891",), "astute": ("1891", "1819")}
"""Methods whose answer stands behind notes, and their examples' answers."""


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
    node, reply, seen = record["node"], record["reply"], str(record["prompt"][-1][1])
    plain: dict[str, Callable[[str], object]] = {
        "judge": parse_judgement,
        "judge_claim": parse_judgement,
        "need": parse_need,
        "topic": read_topic,
        "classify": parse_complexity,
        "grade": parse_grade,
        "verify": parse_validity,
        "rank": parse_preference,
        "recall": lambda said: parse_memory(said, 1),
        "gate": lambda said: UNKNOWN if is_unknown(said) else "text" if said.strip() else "",
        "keywords": lambda said: parse_keywords(said, record["question"]),
        "refine": lambda said: _ids(said, re.findall(r"^strip (\d+) :", seen, re.M)),
    }
    if node in plain:
        return plain[node](reply)
    if node == "rewrite":
        read = parse_rewrite(reply, record["question"])
        asked = [[one.question, one.query] for one in read.questions]
        return asked + [[one.claim, one.query] for one in read.claims]
    if node == "filter_context":
        shown = re.findall(r"^sentence (\d+) :", seen, re.M)
        return _ids(reply, shown or [str(one) for one in range(len(record["titles"]))])
    names_ids = "ONLY the ids" in record["prompt"][-1][1]
    if node == "knowledge_filter" and names_ids:
        texts = "\n".join(text for _, text in record["prompt"])
        first = 0 if re.search(r"^knowledge 0 :", texts, re.M) else 1
        return parse_ids(reply, len(record["titles"]), record["titles"], first=first)
    if node in FREE:
        return "text" if bare_text(reply) else ""
    return _read_step(record)


def _ids(reply: str, numbers: list[str]) -> list[int] | None:
    """Return the positions that a reply names; earlier prompts number from 0."""
    return parse_ids(reply, len(numbers), first=int(numbers[0]) if numbers else 0)


def _read_step(record: dict[str, Any]) -> Any:
    """Read a step of a chain, or an answer."""
    node, reply, kind = record["node"], record["reply"], record["answer_type"]
    seen = str(record["prompt"][-1][1])
    own = record["method"] if node in ("reason", "answer", "answer_cot", *NOTED) else ""
    if node == "reason" and own in CHAINS:
        so_far = seen.rpartition("Reasoning so far: ")[2].partition("\n")[0]
        chain = [one.text for one in split_sentences(so_far)]
        parts = PromptParts(record["question"], IRCOT, seen)
        return list(next_sentence(reply, chain, kind, parts))
    if node == "propose":
        return parse_candidates(reply, kind, 2, PromptParts(record["question"], SURE, seen))
    if node == "react":
        before, _, own = "\n".join(text for _, text in record["prompt"]).rpartition("Question: ")
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
    answers = NOTED.get(own, answers)
    reasons = node in (*REASONING, "answer_cot") or own in NOTED
    reader = read_noted if node == "chain_of_note" else read_answer
    observed = seen.rpartition("<passage 1")[2] if node in ("pruning", "summary") else seen
    parts = PromptParts(record["question"], Examples(answers=answers), observed)
    return reader(reply, kind, parts, reasons=reasons).answer
