"""What each paper fixes for every method of its tables: settings, and how it asks for answers.

`profile="paper"`, or a paper's name, changes two things. **Settings**: the values of `SETTINGS`, for
each option that the caller did not set; our additions are off. **Wording**: next to a template `NAME` may
stand `NAME@PAPER`, as the paper prints it. Both are data, in `papers.yaml`: methods hold our own words. IRCoT's example is
in our words, too, its instruction that of the released configurations for Flan-T5.

Sources: BlendFilter, sections 4.1 and 4.7, appendices C, D and F; SlimPLM, section 4.3, tables 6, 9
and 10, appendices A and B, and its released code; FILCO, section 4.1 and released code; Liu et al. 2024,
sections 3.1 and 4; IRCoT, sections 3.1 and 4.1 and the released configurations; Chain-of-Note (version 2),
appendices A.4 and A.5; SuRe and DOS RAG, released code; CRAG, section 5 and appendix B.2; Astute RAG, section 5.1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from langchain_core.documents import Document
from pydantic import TypeAdapter

from ragweave.nodes.prompts import Prompts, PromptText, Turns
from ragweave.state import AnswerType
from ragweave.state.passages import by_page
from ragweave.tools.filters import generator_task, question_line
from ragweave.tools.text.untrusted import render_lines, render_passages, title_of, untrusted

Paper = Literal[
    "blendfilter", "slimplm", "filco", "post_fusion", "ircot", "chain_of_note", "sure", "dos_rag", "crag", "astute"
]

_DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
SETTINGS: Mapping[str, Mapping[str, Any]] = _DATA["settings"]
"""Options by the paper whose tables they hold for; a method takes those that it has."""
_PRINTED = TypeAdapter(dict[Paper, dict[str, str | Turns]]).validate_python(_DATA["prompts"])
REFERENCE = _PRINTED["slimplm"]["direct_passages"]
"""SlimPLM's prompt over a reference, the same for all of its methods (table 9)."""


def with_printed(ours: Prompts) -> dict[str, PromptText]:
    """Return our prompts, each `NAME` with the papers' own words for it, as `NAME@PAPER`."""
    prompts: dict[str, PromptText] = {}
    for name, text in ours.items():
        printed = {f"{name}@{paper}": texts[name] for paper, texts in _PRINTED.items() if name in texts}
        prompts |= {name: text, **printed}
    return prompts


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
