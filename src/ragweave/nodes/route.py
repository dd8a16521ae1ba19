"""How many searches does a question take: none, one or several (Adaptive-RAG, section 3.2)?

The router is a chat model, or a decision model such as a trained router, which may read a draft answer, too.
"""

import re
from typing import Any, Literal, Self

from langchain_core.decisions import Choice

from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form
from ragweave.nodes.options import Options
from ragweave.nodes.prompts import VERDICT_TOKENS, Asking, Prompt, Prompts, few_shot
from ragweave.nodes.read import choice, plain
from ragweave.state import RouteName


class Complexity(Form):
    """How many searches a question takes."""

    decides = Choice(
        instructions="How many searches does it take to answer the question?",
        criteria={
            "none": "Everybody knows the answer.",
            "one": "One search finds it.",
            "several": "Each search looks for what the one before has found.",
        },
    )

    searches: Literal["none", "one", "several"]

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read the word, or the letter of the paper's classes (section 3.2)."""
        letter = re.match(r"\W*(?:(?:class|answer|level)\W+)*([ABC])\b(?! [a-z])", plain(text), re.I)
        word = [*ROUTE_BY_WORD]["ABC".index(letter[1].upper())] if letter else choice(text, *ROUTE_BY_WORD)
        return cls.model_validate({"searches": word}) if word else None


ROUTE_BY_WORD: dict[str, RouteName] = {"none": "none", "one": "one", "several": "many"}
"""Routes by the word that the prompt asks for; small instruct models answer A to nearly every question."""

PROMPTS: Prompts = {
    "complexity": few_shot(
        "Question: {question}\nHow many searches: none, one or several?",
        ("What is the capital of Italy?", "none"),
        ("When was the lighthouse on Lake Orrin lit?", "one"),
        ("How many legs has a spider?", "none"),
        ("On which river lies the birthplace of the author of The Salt Road?", "several"),
        ("who plays the ferryman in the film Low Water", "one"),
        ("Were the directors of Grey Gull and of Low Water born in the same town?", "several"),
        ("Who painted the Mona Lisa?", "none"),
        system="You say how many searches it takes to answer a question. You do not answer it. none: everybody knows "
        "the answer. one: one search finds it. several: each search looks for what the one before has found.",
    )
}


@model_node("router")
def classify(state: Any, _options: Options) -> Asking[Complexity, dict[str, Any]]:
    """Ask how many searches the question takes; a reply that can't be read means one."""
    values = {"draft": state.get("draft") or ""}
    reply = yield Prompt("complexity", values, form=Complexity, max_tokens=VERDICT_TOKENS, task="route")
    return {"route": ROUTE_BY_WORD[reply.form.searches] if reply.form else "one"}
