"""How prompts are worded: the answer's form, the clause on Unknown, and a paper's own words.

A node names its template; `worded` returns it as the options ask for it: the paper's variant
`NAME@PAPER` where a paper's profile is on and one stands beside it, with the clause on Unknown added
or taken out where `Options.unknown` settles that for all methods alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

from ragweave.nodes.ask import Prompt, Reply, Templates
from ragweave.nodes.options import Options
from ragweave.nodes.profile import Paper
from ragweave.nodes.replies import bare_text
from ragweave.nodes.reply_form import SHORT_ANSWER_TOKENS, Choice, FormOf
from ragweave.state import AnswerType
from ragweave.tools.text.reply import Examples, examples_in
from ragweave.tools.text.unknown import UNKNOWN
from ragweave.tools.text.untrusted import render_passages, title_of, untrusted
from ragweave.trained.forms import context_text

UNKNOWN_CLAUSE = "If you don't know the answer, just say Unknown."

OR_UNKNOWN = ", or Unknown if you don't know it"
"""The same behind `{conclusion}`: as a sentence of its own it made small models skip the reasoning."""

_PRINTED_CLAUSE = "If don't know the answer, just say Unknown."
"""The clause as Liu et al. 2024 print it (section 3.1)."""

ANSWER_FORMS: dict[AnswerType, str] = {
    "short": "Give only the answer, in as few words as it takes.",
    "long": "Give the answer in a few complete sentences.",
    "yes_no": "Give Yes or No as the answer, and nothing else.",
}

MANY_ANSWERS = "Include as many possible answers as you can."
"""The form of a short answer that is searched for gold answers (SlimPLM, table 9)."""

_CLAUSE = re.compile(r" ?\bIf [^.\n]{1,80}\bUnknown\]?\.|" + re.escape(OR_UNKNOWN))
"""What of a template asks to say Unknown."""


@dataclass(frozen=True)
class Style:
    """How a paper asks for answers, whatever the method."""

    forms: Mapping[AnswerType, str] = field(default_factory=lambda: ANSWER_FORMS)
    """What `answer_form` says for each kind of answer."""
    reads: Mapping[AnswerType, AnswerType] = field(default_factory=dict)
    """As what kind of answer a reply is read, where not as the kind that was asked for."""
    render: Callable[[Sequence[Document]], str] = render_passages
    """How passages stand in the prompt."""


def titled_lines(passages: Sequence[Document]) -> str:
    """Write passages as BlendFilter shows knowledge: `title | text`, a line each (figure 6)."""
    return "\n".join(_titled(doc, " | ") for doc in passages)


def reference_text(passages: Sequence[Document]) -> str:
    """Write passages a paragraph each, so that none can close SlimPLM's brackets around them."""
    return "\n".join(_titled(doc, ": ", lines=True) for doc in passages)


def search_results(passages: Sequence[Document]) -> str:
    """Write passages as SlimPLM shows FLARE's search results (table 6): `[1] text`, a line each."""
    texts = (_titled(doc, ": ") for doc in passages)
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))


def wikipedia_pages(passages: Sequence[Document]) -> str:
    """Write passages as IRCoT shows them (section 3.1): a line of the title above each text."""
    return "\n\n".join(f"Wikipedia Title: {title_of(doc)}\n{_on_a_line(doc)}" for doc in passages)


def numbered_passages(passages: Sequence[Document]) -> str:
    """Write passages as SuRe's released code shows them."""
    return "\n\n".join(
        f"Passage #{number} Title: {title_of(doc)}\nPassage #{number} Text: {_on_a_line(doc)}"
        for number, doc in enumerate(passages, start=1)
    )


def plain_chunks(passages: Sequence[Document]) -> str:
    """Write passages as DOS RAG's released code shows them: the texts alone, a line each."""
    return " \n\n".join(map(_on_a_line, passages))


def _on_a_line(doc: Document) -> str:
    return " ".join(untrusted(doc.page_content).split())


def _titled(doc: Document, between: str, *, lines: bool = False) -> str:
    title = title_of(doc)
    text = untrusted(doc.page_content).strip()
    shown = text if lines else " ".join(text.split())
    return f"{title}{between}{shown}" if title else shown


STYLES: Mapping[Paper, Style] = MappingProxyType(
    {
        "blendfilter": Style(
            forms={
                **ANSWER_FORMS,
                "yes_no": "The final answer to a question should always be either Yes or No, and "
                "NOTHING ELSE.",
            },
            render=titled_lines,
        ),
        "slimplm": Style(
            forms={
                **ANSWER_FORMS,
                "short": "You should include as many possible answers as you can.",
                "long": "You are not allowed to add fabrications or hallucinations.",
            },
            reads={"short": "long"},
            render=reference_text,
        ),
        "filco": Style(render=context_text),
        "post_fusion": Style(),
        "ircot": Style(render=wikipedia_pages),
        "chain_of_note": Style(),
        "sure": Style(render=numbered_passages),
        "dos_rag": Style(render=plain_chunks),
    }
)
"""How each paper asks for answers: BlendFilter, appendix F (of short answers the text that we have
holds no form: ours stands); SlimPLM, table 9; FILCO, released code."""


def as_clause(form: str) -> str:
    """Return what `answer_form` says as the end of a sentence: "give only the answer, …"."""
    return form[:1].lower() + form[1:].removesuffix(".")


def style_of(options: Options) -> Style | None:
    """Return how the paper in force asks for answers; None where the method's own way holds."""
    return STYLES[options.paper] if options.paper else None


def variants(prompts: Templates, *names: str) -> dict[str, ChatPromptTemplate]:
    """Return the templates of these names, each with its papers' variants."""
    return {key: one for key, one in prompts.items() if key.partition("@")[0] in names}


def worded(
    templates: Templates, name: str, options: Options, *, answers: bool = True
) -> ChatPromptTemplate:
    """Return the template called `name` in the words that the options ask for.

    Args:
        templates: The method's templates.
        name: The template's name.
        options: The options in force.
        answers: Whether it asks for an answer, so that the clause on Unknown has a place in it.
    """
    template = templates.get(f"{name}@{options.paper}", templates[name])
    return clause_as_wanted(template, options) if answers else template


def examples_shown(
    template: ChatPromptTemplate, *, questions: str = "", answers: str = "", queries: str = ""
) -> Examples:
    """Return what the examples of a prompt say, the caller's own too.

    Args:
        template: The prompt that is sent.
        questions: Pattern of a question, with one group; "": none is looked for.
        answers: Pattern of an answer.
        queries: Pattern of a query.
    """
    said = _words_of(template)
    found = examples_in(said, questions=questions, answers=answers, queries=queries)
    return Examples(*(tuple(filter(_says_something, group)) for group in found))


def shown_by(reply: Reply, known: Examples) -> Examples:
    """Return those of our examples that the prompt of a reply shows: a caller's own has others.

    Args:
        reply: The reply; what it was asked stands in it.
        known: What the examples of our prompt say.
    """
    if reply.prompt is None:
        return Examples()
    template, values = reply.prompt.template, reply.prompt.values
    filled_in = values.get("examples", "") if "examples" in template.input_variables else ""
    shown = f"{_words_of(template)}\n{filled_in}"
    return Examples(*(tuple(one for one in group if one in shown) for group in known))


def _words_of(template: ChatPromptTemplate) -> str:
    said = [text for _, text in _texts(template)]
    said += [one.text for one in template.messages if isinstance(one, BaseMessage)]
    return "\n".join(said)


def _says_something(shown: str) -> bool:
    return "{" not in shown and shown != UNKNOWN


def clause_as_wanted(template: ChatPromptTemplate, options: Options) -> ChatPromptTemplate:
    """Return a template with the clause on Unknown, or without, where the options settle that."""
    if options.unknown == "method":
        return template
    return with_clause(template) if options.unknown else without_clause(template)


def without_clause(template: ChatPromptTemplate) -> ChatPromptTemplate:
    """Return a template without the sentence that asks to say Unknown."""
    return _changed(template, {index: _CLAUSE.sub("", text) for index, text in _texts(template)})


def with_printed_clause(template: ChatPromptTemplate) -> ChatPromptTemplate:
    """Return a template of ours that has the clause on Unknown with the clause as printed."""
    texts = {
        index: text.replace(UNKNOWN_CLAUSE, _PRINTED_CLAUSE) for index, text in _texts(template)
    }
    return _changed(template, texts)


def with_clause(template: ChatPromptTemplate) -> ChatPromptTemplate:
    """Return a template that asks to say Unknown; one that does already is returned as it is.

    The clause goes behind the form of the answer; where there is none, before the examples; else
    to the end.
    """
    texts = dict(_texts(template))
    if not texts or any(_CLAUSE.search(text) for text in texts.values()):
        return template
    for mark, changed in (
        ("{answer_form}", "{answer_form} " + UNKNOWN_CLAUSE),
        ("{conclusion}", "{conclusion}" + OR_UNKNOWN),
        ("\n\n{examples}", f" {UNKNOWN_CLAUSE}\n\n{{examples}}"),
    ):
        for index, text in texts.items():
            if mark in text:
                return _changed(template, {index: text.replace(mark, changed)})
    last = max(texts)
    return _changed(template, {last: f"{texts[last]}\n{UNKNOWN_CLAUSE}"})


def _texts(template: ChatPromptTemplate) -> Iterator[tuple[int, str]]:
    """Yield the texts of a template's messages with their places."""
    for index, message in enumerate(template.messages):
        prompt = getattr(message, "prompt", None)
        if isinstance(prompt, PromptTemplate):
            yield index, prompt.template


def _changed(template: ChatPromptTemplate, texts: Mapping[int, str]) -> ChatPromptTemplate:
    messages = [
        _with_text(message, texts[index]) if index in texts else message
        for index, message in enumerate(template.messages)
    ]
    return template.model_copy(update={"messages": messages})


def _with_text(message: Any, text: str) -> Any:
    prompt = message.prompt.model_copy(update={"template": text})
    return message.model_copy(update={"prompt": prompt})


_AGAIN = (
    "That does not answer the question: {asked_question}\nWrite the answer itself and nothing else. "
    "{short_form} " + UNKNOWN_CLAUSE
)
"""What follows a reply that is no answer."""

_REPEATED = 1500
"""Characters of a reply that stand in the prompt that asks again."""


def asked_again(
    prompt: Prompt, first: Reply, question: str, kind: AnswerType, options: Options
) -> Prompt:
    """Return what asks for the answer alone, behind a prompt and a reply to it that was none.

    Args:
        prompt: The first prompt.
        first: The reply to it.
        question: The question.
        kind: The kind of answer asked for.
        options: The options in force.
    """
    messages = [*prompt.template.messages, ("ai", "{no_answer}"), ("human", _AGAIN)]
    return replace(
        prompt,
        template=clause_as_wanted(ChatPromptTemplate(messages), options),
        values={
            **prompt.values,
            "no_answer": untrusted(bare_text(first.text)[:_REPEATED]) or "…",
            "short_form": ANSWER_FORMS[kind],
            "asked_question": question,
        },
        form=answer_choice(kind),
        cuttable="no_answer",
        reply_tokens=None if kind == "long" else SHORT_ANSWER_TOKENS,
    )


def answer_choice(kind: AnswerType) -> FormOf | None:
    """Return the form of an answer by itself, where its kind has one."""
    return (lambda _shown: Choice(("Yes", "No", UNKNOWN))) if kind == "yes_no" else None
