"""Self-Eval: does the model itself say that it needs retrieval?

Source: Kadavath et al. 2022 (Language Models (Mostly) Know What They Know), as SlimPLM's baseline
(section 4.3): few examples, and the model decides. The three examples are our own.
"""

from __future__ import annotations

from types import MappingProxyType

from langchain_core.prompts import ChatPromptTemplate
from langgraph.types import Overwrite

from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.need_reply import parse_need
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.step import Context, Step
from ragweave.state import RAGState, Update
from ragweave.tools.gbnf import one_of
from ragweave.tools.models import Models

_ASK = "Question: {question}\nDo you need to look something up to answer it? Say Yes or No."

PROMPTS = MappingProxyType(
    {
        "self_eval": ChatPromptTemplate(
            [
                (
                    "system",
                    "You decide whether you can answer a question from what you know for sure, or "
                    "need to look something up first. You do not answer the question.",
                ),
                ("human", _ASK.format(question="What is the boiling point of water at sea level?")),
                ("ai", "No"),
                ("human", _ASK.format(question="Who was the second mayor of Eastbourne?")),
                ("ai", "Yes"),
                ("human", _ASK.format(question="Which ocean lies between Africa and America?")),
                ("ai", "No"),
                ("human", _ASK),
            ]
        )
    }
)
"""The template by name; its variable is `question`."""


def retrieval_decision_step(
    models: Models, templates: Templates, options: OptionsT
) -> Step[RAGState, OptionsT]:
    """Return the node `need`: asks the judge whether the question needs retrieval.

    A reply that can't be read means yes.
    """

    def prompt(state: RAGState, _options: OptionsT) -> Prompt:
        asked = state["question"]
        return Prompt(
            templates["self_eval"],
            {"task": "need", "question": asked},
            {"question": asked},
            grammar=lambda _shown: one_of(("Yes", "No")),
        )

    def update(_state: RAGState, reply: Reply, context: Context[OptionsT]) -> Update:
        needed = parse_need(reply.text)
        if needed is None:
            context.note("need_unparsed")
        return retrieval_decision(known=needed is False)

    question = Ask[RAGState, OptionsT](name="need", role="judge", prompt=prompt, update=update)
    return question.step(models, options)


def retrieval_decision(*, known: bool) -> Update:
    """Return the update of a verdict; what is known is answered without any passage."""
    return {"known": known, "passages": Overwrite([])} if known else {"known": known}
