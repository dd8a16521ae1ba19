"""Query blending: the question expanded by what a model writes with and without passages.

Source: BlendFilter, section 3.2. The generated text comes first, then the question.
"""

from __future__ import annotations

from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.augment_prompts import examples
from ragweave.nodes.blending import BlendingOptions, written_now
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.nodes.widen import LONGEST, expand_query
from ragweave.state import AnswerType, Branch, RAGState, Update, ranked
from ragweave.tools.models import Models
from ragweave.tools.tasks import Task, TaskName


def external_step(
    models: Models, templates: Templates, options: BlendingOptions
) -> Step[RAGState, BlendingOptions]:
    """Return the node `external`: reasons over what the last query found (a_ex)."""

    def prompt(state: RAGState, opts: BlendingOptions) -> Prompt:
        found = state["retrieved"].get("external" if state["hop"] else "question", [])
        values = {"question": state["question"], **shown(state["resolved_answer_type"], opts)}
        name = "external" if found else "reason_closed"
        return Prompt(templates[name], _task("reason", state), values, found)

    def update(state: RAGState, reply: Reply, _context: Context[BlendingOptions]) -> Update:
        return {"augmented": {"external": reply.text}, "hop": state["hop"] + 1}

    question = Ask[RAGState, BlendingOptions](
        name="external", role="answer", prompt=prompt, update=update
    )
    return question.step(models, options)


def internal_step(
    models: Models, templates: Templates, options: OptionsT
) -> Step[RAGState, OptionsT]:
    """Return the node `internal`: writes a passage from the model's own memory (a_in)."""

    def prompt(state: RAGState, _options: OptionsT) -> Prompt:
        values = {"question": state["question"]}
        return Prompt(templates["internal"], _task("recall", state), values)

    def update(_state: RAGState, reply: Reply, _context: Context[OptionsT]) -> Update:
        return {"augmented": {"internal": reply.text}}

    question = Ask[RAGState, OptionsT](name="internal", role="answer", prompt=prompt, update=update)
    return question.step(models, options)


def shown(answer_type: AnswerType, options: BlendingOptions) -> dict[str, str]:
    """Return the examples that a reasoning prompt shows, for the kind of answer wanted."""
    return {"examples": examples(answer_type, options.shots)}


def reasoned_answer(name: str) -> AnswerStep:
    """Return the answer step that reasons over the knowledge that is left (section 3.4)."""

    def values(branch: Branch, options: BlendingOptions) -> dict[str, str]:
        return shown(branch["answer_type"], options)

    return AnswerStep(name, "reason", closed_template="reason_closed", reasons=True, values=values)


def blend_step(options: BlendingOptions) -> Step[RAGState, BlendingOptions]:
    """Return the node `blend`: makes the augmented queries."""

    def body(state: RAGState, context: Context[BlendingOptions]) -> Work:
        return pure(blend(state, context))

    return Step("blend", body, options)


def blend(state: RAGState, context: Context[BlendingOptions]) -> Update:
    """Put each generated text before the question, and drop the question itself if not wanted.

    A text that is empty or says that the model does not know adds nothing: its query is the
    question, and is left out where the question's own set stands; in a later hop, the last
    hop's query stays. Noted `augmentation_empty`. Where two queries would be the question, one is;
    and what the question found already is what that one finds.
    """
    if state["passages"]:
        return {}
    question = state["question"]
    queries = dict(state["queries"])
    if "question" not in context.options.queries:
        queries.pop("question", None)
    for key in written_now(state):
        query, length = expand_query(question, state["augmented"][key])
        if query == question:
            context.note("augmentation_empty", query=key)
            query = queries.get(key, query)
        if query != question or question not in queries.values():
            queries[key] = query
        if length > LONGEST:
            context.note("query_cut", query=key, characters=length)
    found = state["retrieved"].get("question")
    same = [key for key, query in queries.items() if query == question and key != "question"]
    reused = {} if found is None else {key: ranked(found, key) for key in same}
    return {"queries": queries, "retrieved": reused}


def _task(name: TaskName, state: RAGState) -> Task:
    return {
        "task": name,
        "question": state["question"],
        "answer_type": state["resolved_answer_type"],
    }
