"""The knowledge filter: the model itself names the passages of a set that bear on the question.

Source: BlendFilter, section 3.3 and appendix F. Each query's set is filtered by itself, and always
against the original question. The topic is asked for once; every set then has a dialogue of two
turns: check the passages one by one, then output only the ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.types import Send

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.dialogue import ledger
from ragweave.nodes.notes import note
from ragweave.nodes.numbered import numbered, numbers_form
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Grammar, Prompt, Templates
from ragweave.nodes.replies import bare_text
from ragweave.nodes.retrieve import passage_sets
from ragweave.nodes.step import Step, Work
from ragweave.state import Update
from ragweave.tools.claims import parse_ids
from ragweave.tools.models import Models
from ragweave.tools.tasks import Task
from ragweave.tools.text.untrusted import one_line, untrusted

_LEAD = re.compile(
    r"\W*(?:(?:sure|certainly|of course)[,.!]+\s"
    r"|(?:answer|(?:general )?topic)\s*:"
    r"|(?:the|this|that|its|it)\b(?: (?:question'?s?|general|main|broad|overall|topic))*"
    r"(?: (?:of|for|behind) (?:the|this|that) question)?"
    r"(?: (?:is|would be|falls under|belongs to|relates to)\b)"
    r"(?: (?:most |closely |generally |mainly )*(?:related|connected) to\b| about\b)?)"
    r"(?: the (?:general |broad )?(?:topic|field|subject|area) of\b)?[\s:]*(?=\S)",
    re.IGNORECASE,
)
"""What models say before the topic itself."""

_RETOLD = re.compile(r"(?:the|this) question (?:asks|is asking)\b", re.IGNORECASE)
"""The question told again is no topic."""

TOPIC_LENGTH = 120
"""Characters of a topic; what is longer is no topic."""


def topic_step(models: Models, templates: Templates, options: OptionsT) -> Step[OptionsT]:
    """Return the node `topic`: asks once for the question's general topic."""

    def prompt(state: Mapping[str, Any], _opts: Any) -> Prompt:
        task: Task = {"task": "topic", "question": state["question"]}
        return Prompt(templates["topic"], task, {"question": state["question"]})

    def update(_state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"topic": read_topic(reply.text)}

    question = Ask[OptionsT](name="topic", role="filter", prompt=prompt, update=update)

    def body(state: Mapping[str, Any], opts: OptionsT, config: RunnableConfig) -> Work:
        told = yield from ask(question, models, state, opts, config)
        if not told["topic"]:
            told["notes"] = [*told["notes"], note(config, "topic", "topic_unparsed")]
        return told

    return Step("topic", body, options)


def read_topic(reply: str) -> str:
    """Return the topic that a reply names, or "" where it names none in a few words."""
    lines = [line for line in bare_text(reply).splitlines() if line.strip(" *#:.-")]
    first = one_line(lines[0][: 4 * TOPIC_LENGTH]).replace("*", "").strip() if lines else ""
    while lead := _LEAD.match(first):
        first = first[lead.end() :].strip()
    topic = first.strip(" .*:")
    return topic if len(topic) <= TOPIC_LENGTH and not _RETOLD.match(topic) else ""


def filter_branches(state: Mapping[str, Any], node: str) -> list[Send]:
    """Return a branch to the filter for each query's set that has any passage."""
    shared = {key: state.get(key) for key in ("question", "topic", "deadline")}
    return [
        Send(node, {**shared, "query_key": key, "passages": passages})
        for key, passages in passage_sets(state).items()
        if passages
    ]


def knowledge_filter_step(
    models: Models, templates: Templates, options: OptionsT
) -> Step[OptionsT]:
    """Return the node `knowledge_filter`: filters one set, writes `kept[query_key]`."""
    check, choose = _check(templates), _choose(templates)

    def body(state: Mapping[str, Any], opts: OptionsT, config: RunnableConfig) -> Work:
        checked = yield from ask(check, models, state, opts, config)
        turn = {**state, "relevance": checked["relevance"], "passages": checked["shown"]}
        if not checked["relevance"]:
            return {**ledger(checked), **_unparsed(state, config, checked)}
        chosen = yield from ask(choose, models, turn, opts, config)
        titles = [str(doc.metadata.get("title") or "") for doc in chosen["shown"]]
        ids = parse_ids(chosen["ids"], len(chosen["shown"]), titles)
        if ids is None:
            return _unparsed(state, config, checked, chosen)
        kept = [chosen["shown"][at] for at in sorted(ids)]
        return {**ledger(checked, chosen), "kept": {state["query_key"]: kept}}

    return Step("knowledge_filter", body, options)


def _unparsed(state: Mapping[str, Any], config: RunnableConfig, *calls: Update) -> Update:
    """Keep the whole set: a filter that said nothing readable has not said "none"."""
    update = ledger(*calls)
    key = state["query_key"]
    update["notes"] = [
        *update["notes"],
        note(config, "knowledge_filter", "filter_unparsed", set=key),
    ]
    return {**update, "kept": {key: list(state["passages"])}}


def _check(templates: Templates) -> Ask[Any]:
    def prompt(state: Mapping[str, Any], _opts: Any) -> Prompt:
        name = "relevance" if state["topic"] else "relevance_any_topic"
        return _prompt(state, templates, name)

    def update(_state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {
            "relevance": untrusted(bare_text(reply.text)),
            "shown": list[Document](reply.passages),
        }

    return Ask(name="knowledge_filter", role="filter", prompt=prompt, update=update)


def _choose(templates: Templates) -> Ask[Any]:
    def prompt(state: Mapping[str, Any], _opts: Any) -> Prompt:
        name = "ids" if state["topic"] else "ids_any_topic"
        return _prompt(state, templates, name, numbers_form)

    def update(_state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"ids": reply.text, "shown": list[Document](reply.passages)}

    return Ask(name="knowledge_filter", role="filter", prompt=prompt, update=update)


def _prompt(
    state: Mapping[str, Any], templates: Templates, name: str, form: Grammar | None = None
) -> Prompt:
    task: Task = {"task": "filter", "question": state["question"]}
    values = {key: state.get(key, "") for key in ("question", "topic", "relevance")}
    render = numbered("knowledge")
    return Prompt(templates[name], task, values, state["passages"], render=render, grammar=form)
