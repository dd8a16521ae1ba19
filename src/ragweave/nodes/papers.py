"""What each paper fixes for every method of its tables: settings, and how it asks for answers.

`profile="paper"`, or a paper's name, changes two things. **Settings**: the values of `SETTINGS`, for
each option that the caller did not set; our additions are off. **Wording**: next to a template `NAME` may
stand `NAME@PAPER`, as the paper prints it. Those of answers, which all methods share, stand here;
those of a method's own steps in the method's file.

Sources: BlendFilter, sections 4.1 and 4.7, appendices C, D and F; SlimPLM, section 4.3, tables 6, 9
and 10, appendices A and B, and its released code; FILCO, section 4.1 and released code; Liu et al. 2024,
sections 3.1 and 4; IRCoT, sections 3.1 and 4.1 and the released configurations; Chain-of-Note (version 2),
appendices A.4 and A.5; SuRe and DOS RAG, released code; CRAG, section 5 and appendix B.2; Astute RAG, section 5.1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.nodes.prompts import Prompts
from ragweave.state import AnswerType
from ragweave.state.passages import by_page
from ragweave.tools.filters import generator_task, question_line
from ragweave.tools.text.untrusted import render_lines, render_passages, title_of, untrusted

Paper = Literal[
    "blendfilter", "slimplm", "filco", "post_fusion", "ircot", "chain_of_note", "sure", "dos_rag", "crag", "astute"
]

_PLAIN = {
    "ask_again": False,
    "fallback_retrieval": False,
    "constrain": False,
    "unknown": False,
    "sample_temperature": 0.0,
}
"""Our additions are off; most papers don't ask for Unknown, and decode greedily."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "blendfilter": {**_PLAIN, "k": 5, "shots": 3, "reader": False},
    "slimplm": {
        **_PLAIN,
        "k": 20,  # all rows read twenty paragraphs (released code), within 3,000 tokens
        "prompt_tokens": 3000,
        "shots": 0,
        "max_rounds": 3,
        "reader": True,
        "sample_temperature": 0.01,
        "top_p": 0.85,
    },
    "filco": {**_PLAIN, "k": 1, "prompt_tokens": 1024, "reply_tokens": 128},
    "post_fusion": {**_PLAIN, "k": 5, "unknown": True},
    "ircot": {**_PLAIN, "k": 6},
    "chain_of_note": {**_PLAIN, "k": 5},
    "sure": {**_PLAIN, "k": 10},
    "dos_rag": _PLAIN,
    "crag": {**_PLAIN, "k": 10, "max_strips": 5, "upper": 0.59, "lower": -0.99},
    "astute": {**_PLAIN, "k": 10, "max_own_passages": 1, "iterations": 1},
}
"""Options by the paper whose tables they hold for; a method takes those that it has."""

INSTRUCTIONS: Mapping[AnswerType, str] = {
    "short": "Give only the answer, in as few words as it takes.",
    "long": "Give the answer in a few complete sentences.",
    "yes_no": "Give Yes or No as the answer, and nothing else.",
}
MANY_ANSWERS = "Include as many possible answers as you can."
"""How a short answer is asked for that is searched for gold answers (SlimPLM, table 9)."""


UNKNOWN_CLAUSE = "If you don't know the answer, just say Unknown."
PRINTED_CLAUSE = "If don't know the answer, just say Unknown."
"""The clause as Liu et al. print it (section 3.1)."""


@dataclass(frozen=True)
class Style:
    """How answers are asked for."""

    instructions: Mapping[AnswerType, str] = field(default_factory=lambda: INSTRUCTIONS)
    """How each type of answer is asked for."""
    read_as: Mapping[AnswerType, AnswerType] = field(default_factory=dict)
    """The type that a reply is read as, where it is not the one asked for."""
    show: Callable[[Sequence[Document]], str] = render_passages
    """Writes the passages."""
    unknown: str = UNKNOWN_CLAUSE
    """What the prompt says to do if the answer is not known, where it says so."""
    pooled: Callable[[Sequence[Document]], list[Document]] = list
    """Orders what all queries found, best first."""
    one_length: bool = False
    """Whether answers of every type may be as long as `reply_tokens` allows."""
    variables: Callable[[str], Mapping[str, str]] = lambda _question: {}
    """More variables of the paper's prompts, by the question."""


def filco_lines(question: str) -> dict[str, str]:
    """Return the variables of FILCO's prompts: the generator's instruction and the question's line."""
    return {
        "task": generator_task(question),
        "closed_task": generator_task(question, context=False),
        "asked": question_line(question),
    }


def layout(passage: str, between: str = "\n") -> Callable[[Sequence[Document]], str]:
    """Return what writes passages by a format of `number`, `title`, `named` (title and colon), `text` and `lines`."""

    def show(passages: Sequence[Document]) -> str:
        texts = []
        for number, doc in enumerate(passages, 1):
            title, lines = title_of(doc), untrusted(doc.page_content).strip()
            named, text = f"{title}: " if title else "", " ".join(lines.split())
            texts.append(passage.format(number=number, title=title, named=named, text=text, lines=lines))
        return between.join(texts)

    return show


context_text = layout("{named}{text}", " ")
"""Passages on FILCO's `context:` line, one after the other, with their titles."""
bare_texts = layout("{text}")
"""As SlimPLM's and FILCO's released code show passages: the texts alone."""

OURS = Style()
STYLES: Mapping[str, Style] = {
    "blendfilter": Style(
        instructions={
            **INSTRUCTIONS,
            "yes_no": "The final answer to a question should always be either Yes or No, and NOTHING ELSE.",
        },
        show=render_lines,
    ),
    "slimplm": Style(
        instructions={
            **INSTRUCTIONS,
            "short": "You should include as many possible answers as you can.",
            "long": "You are not allowed to add fabrications or hallucinations.",
        },
        read_as={"short": "long"},
        show=bare_texts,
        pooled=by_page,
        one_length=True,
    ),
    "filco": Style(show=bare_texts, one_length=True, variables=filco_lines),
    "post_fusion": Style(unknown=PRINTED_CLAUSE),
    "ircot": Style(show=layout("Wikipedia Title: {title}\n{text}", "\n\n")),
    "chain_of_note": OURS,
    "sure": Style(show=layout("Passage #{number} Title: {title}\nPassage #{number} Text: {text}", "\n\n")),
    "dos_rag": Style(show=layout("{text}", " \n\n")),
}
"""How each paper, or its released code, asks for answers, whatever the method."""


def style_of(paper: str, own: Style = OURS) -> Style:
    """Return how a paper asks for answers, or a method's own style if none of a paper's is on."""
    return STYLES.get(paper, own)


_REFERENCE = (
    "Now, based on the following reference and your knowledge, please answer the question more succinctly and "
    "professionally. The reference is delimited by triple brackets [[[]]]. The question is delimited by triple "
    "parentheses ((())). {instruction}"
)
_REFERRED = "Reference: [[[{passages}]]], question: ((({question})))"
REFERENCE = [("system", _REFERENCE), ("human", _REFERRED)]
"""SlimPLM's prompt over a reference, the same for all of its methods (table 9)."""

_STEPS = "Let's think step by step."
BY_STEPS = "Q: Answer the following question by reasoning step-by-step.\n"
SALT_ROAD = (
    "Wikipedia Title: The Salt Road\nThe Salt Road is a novel by Ines Falk about the port of Verra.\n\n"
    "Wikipedia Title: Verra\nVerra is a port on the river Osk, known for its glass works.\n\n"
)
LIES = "On which river lies the port that The Salt Road is about?"
CHAINED = "The Salt Road is about the port of Verra. Verra is a port on the river Osk. So the answer is: Osk."
"""The example of IRCoT's prompts, in our words, and its instruction (released configurations for Flan-T5)."""

_DOS_RAG = (
    "[Start of Context]:\n\n{passages}\n\n[End of Context]\n\n[Start of Question]:\n\n{question}\n\n"
    "[End of Question]\n\n[Instructions:]\n- Answer the question **only** based on the provided context.\n"
    "- Keep the answer **short and factual** (preferably between 1-20 words).\n- Do **not** provide "
    "explanations or additional details beyond what is necessary.\n- If the answer is **not explicitly "
    'stated** in the context, respond with: "Not found in context."'
)
_SURE = (
    "Task description: predict the answer to the following question. Do not exceed 3 words.\n\n"
    "Question: {question}.\n\nAnswer: "
)
PROMPTS: Prompts = {
    "direct@slimplm": "{question}",
    "direct_passages@slimplm": REFERENCE,
    "cot@slimplm": f"Question: {{question}}\n{_STEPS}",
    "cot_passages@slimplm": [
        ("system", _REFERENCE),
        ("human", f"{_REFERRED} think step by step to answer the question"),
    ],
    "direct@filco": "{closed_task}\n\n{asked}",
    "direct_passages@filco": "{task}\n\ncontext: {passages}\n{asked}",
    "cot_passages@ircot": [
        ("human", f"{SALT_ROAD}{BY_STEPS}{LIES}\nA:"),
        ("ai", CHAINED),
        ("human", f"{{passages}}\n\n{BY_STEPS}{{question}}\nA:"),
    ],
    "concat@ircot": [
        ("human", f"{SALT_ROAD}Q: Answer the following question.\n{LIES}\nA:"),
        ("ai", "Osk"),
        ("human", "{passages}\n\nQ: Answer the following question.\n{question}\nA:"),
    ],
    "concat@chain_of_note": (
        "Task Description: The primary objective is to briefly answer the question.\n\nQuestion: {question}\n\n{passages}"
    ),
    "concat@sure": "{passages}\n\n" + _SURE,
    "direct@sure": _SURE,
    "concat@dos_rag": [("system", "You are Question Answering Portal"), ("human", _DOS_RAG)],
}
"""The papers' prompts for answers, by the name of ours."""
