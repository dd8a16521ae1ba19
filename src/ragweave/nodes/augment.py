"""Query blending: the question widened by what a model writes with and without passages.

Source: BlendFilter, section 3.2. The generated text comes first, then the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.augment_prompts import EXAMPLE_ANSWERS, examples
from ragweave.nodes.blending import BlendingOptions, written_now
from ragweave.nodes.notes import note
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.step import Step, Work, pure
from ragweave.nodes.widen import LONGEST, widened
from ragweave.state import Note, Update, ranked
from ragweave.tools.models import Models


def external_step(models: Models, templates: Templates, options: OptionsT) -> Step[OptionsT]:
    """Return the node `external`: reasons over what the last query found (a_ex)."""

    def prompt(state: Mapping[str, Any], opts: Any) -> Prompt:
        found: Sequence[Document] = state["retrieved"].get(
            "external" if state["hop"] else "question", []
        )
        values = {"question": state["question"], **shown(state, opts)}
        name = "external" if found else "reason_closed"
        return Prompt(templates[name], _task("reason", state), values, found)

    def update(state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"augmented": {"external": reply.text}, "hop": state["hop"] + 1}

    ask = Ask[OptionsT](name="external", role="answer", prompt=prompt, update=update)
    return ask.step(models, options)


def internal_step(models: Models, templates: Templates, options: OptionsT) -> Step[OptionsT]:
    """Return the node `internal`: writes a passage from the model's own memory (a_in)."""

    def prompt(state: Mapping[str, Any], _opts: Any) -> Prompt:
        values = {"question": state["question"]}
        return Prompt(templates["internal"], _task("recall", state), values)

    def update(_state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"augmented": {"internal": reply.text}}

    ask = Ask[OptionsT](name="internal", role="answer", prompt=prompt, update=update)
    return ask.step(models, options)


def shown(branch: Mapping[str, Any], options: BlendingOptions) -> dict[str, str]:
    """Return the examples that a reasoning prompt shows, for the kind of answer wanted."""
    return {"examples": examples(branch["answer_kind"], options.shots)}


def reasoned_answer(name: str) -> AnswerStep:
    """Return the answer step that reasons over the knowledge that is left (section 3.4)."""
    return AnswerStep(
        name,
        "reason",
        closed_template="reason_closed",
        reasons=True,
        examples=EXAMPLE_ANSWERS,
        values=shown,
    )


def blend_step(options: OptionsT) -> Step[OptionsT]:
    """Return the node `blend`: makes the augmented queries."""

    def body(state: Mapping[str, Any], opts: Any, config: RunnableConfig) -> Work:
        return pure(blend(state, opts, config))

    return Step("blend", body, options)


def blend(state: Mapping[str, Any], options: BlendingOptions, config: RunnableConfig) -> Update:
    """Put each generated text before the question, and drop the question itself if not wanted.

    A text that is empty or says that the model does not know adds nothing: its query is the
    question, and is left out where the question's own set stands; in a later hop, the last
    hop's query stays. Noted `augmentation_empty`. Where two queries would be the question, one is;
    and what the question found already is what that one finds.
    """
    if state["passages"]:
        return {}
    question, notes = state["question"], list[Note]()
    queries = dict(state["queries"])
    if "question" not in options.queries:
        queries.pop("question", None)
    for key in written_now(state):
        query, length = widened(question, state["augmented"][key])
        if query == question:
            notes.append(note(config, "blend", "augmentation_empty", query=key))
            query = queries.get(key, query)
        if query != question or question not in queries.values():
            queries[key] = query
        if length > LONGEST:
            notes.append(note(config, "blend", "query_cut", query=key, characters=length))
    found = state["retrieved"].get("question")
    same = [key for key, query in queries.items() if query == question and key != "question"]
    reused = {} if found is None else {key: ranked(found, key) for key in same}
    return {"queries": queries, "retrieved": reused, "notes": notes}


def _task(name: Any, state: Mapping[str, Any]) -> Any:
    return {"task": name, "question": state["question"], "answer_type": state["answer_kind"]}
