"""How many searches does a question take: none, one or several (Adaptive-RAG, section 3.2)? Or is it about everything?

The router is a chat model, or a decision model such as a trained router, which may read a draft answer, too. Questions
about a whole collection are told by rules.
"""

import re
from collections import Counter
from itertools import filterfalse, islice
from pathlib import PurePath
from typing import Any, Literal, Self

from langchain_core.decisions import Choice

from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form
from ragweave.nodes.options import Options
from ragweave.nodes.prompts import VERDICT_TOKENS, Asking, Prompt, Prompts, few_shot
from ragweave.nodes.read import choice, plain
from ragweave.state import RouteName
from ragweave.state.passages import heading_of
from ragweave.tools.knowledge.loaders import FILE_TYPES
from ragweave.tools.knowledge.loaders.text import RESERVED
from ragweave.tools.knowledge.tables import DOCUMENTS
from ragweave.tools.retrieval.analyzer import analyzer_for


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


_EXTREMES = (
    "most|least|fewest|largest|smallest|highest|lowest|longest|shortest|oldest|newest|latest|greatest|biggest|best|worst|"
    "cheapest|youngest|lightest|fastest|slowest|[a-z]{3,}iest"
)
_COUNTED = re.compile(
    r"\b(?:how many|number of|list|name|enumerate|which|what|show|give me|find)\s+"
    r"(?:(?:of|the|all|our|these|those|different|every|each|any|me) )*((?:[\w'/-]+ ){0,3}[\w'/-]+)",
    re.I,
)
"""What is counted or listed: the words after "how many"."""
_AFTER_NOUN = re.compile(
    r"\b(?:is|are|was|were|be|do|does|did|has|have|had|in|on|at|for|from|with|that|which|who|whose|about|by|to|and|or|can|"
    r"will|would|should|there|mention\w*|say\w*)\b.*",
    re.I,
)
_OVER_ALL = re.compile(
    r"\b(?:totals?|sum|average|mean|median|combined|percentage|altogether|together|overall|all|any|how much|"
    rf"(?:each|per)(?! (?:hour|day|night|week|month|quarter|year)\b)|{_EXTREMES})\b",
    re.I,
)
"""What is said of all things; what somebody gets per month is said of one."""
_ONE_OF_ALL = re.compile(rf"\b(?:every|{_EXTREMES})\b((?: [\w-]+){{0,2}})", re.I)
_PLURAL = re.compile(r"[^\W\d_]{2,}(?<![sui])s|people|men|women|children|staff", re.I)
_MEASURE = re.compile(
    r"(?:seconds|minutes|hours|days|nights|weeks|months|quarters|years|decades|centuries|times|people|persons|points|percent|"
    r"\w*met(?:re|er)s|inches|feet|yards|miles|acres|\w*grams|pounds|ounces|tons|tonnes|lit(?:re|er)s|gallons|degrees|"
    r"euros|dollars|cents|bytes|pages|words|has|its|was|this|does|is)",
    re.I,
)
"""What "how many" asks of one thing, and words that end like a plural."""
_SAMPLE, _BEGINNING = 200, 60
"""Texts that tell what a collection is of, and characters of each."""


def asks_about_all(question: str, collection: Any) -> bool:
    """Return whether an English question counts, lists or compares the things that a knowledge base has documents about.

    Such a thing, as "bridges" in "How many bridges are closed?", is named by a file of rows, a column, files or folders, or
    by the headings or first words of every fifth of the first 200 texts. Measured by `benchmarks/exhaustive.py`.
    """
    counted, one_of = _COUNTED.search(question), _ONE_OF_ALL.search(question)
    if not (counted or one_of or _OVER_ALL.search(question)):
        return False
    terms, kinds = analyzer_for(collection.settings.language).terms, collection.derived(_kinds)
    noun = _nouns(_AFTER_NOUN.sub("", counted[1])) if counted else []
    things = [word for word in _nouns(question) if not kinds.isdisjoint(terms(word))]
    if any(map(_PLURAL.fullmatch, things)):
        return bool(_OVER_ALL.search(question) or any(map(_PLURAL.fullmatch, noun)))
    # The oldest bridge, every bridge; or: which bridge is the oldest?
    return one_of is not None and any(word in things for word in [*noun, *_nouns(one_of[1])])


def fits_tables(question: str, collection: Any) -> bool:
    """Return whether a table of a knowledge base, or a field of its documents' metadata, is named in a question."""
    terms = analyzer_for(collection.settings.language).terms
    tables = collection.tables().tables
    names = [column.name for table in tables for column in table.columns if column.name not in _OF_FILES]
    names += [table.name for table in tables if table.name != DOCUMENTS]
    return not {*terms(" ".join(names).replace("_", " "))}.isdisjoint(terms(" ".join(_nouns(question))))


_OF_FILES = ("file", "folder", "title")
"""Columns of the table of all documents, where their metadata has no field."""
_OF_ROWS = ("excel", "csv", "tsv", "json", "jsonl")
"""Types of files whose texts are rows."""


def _nouns(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text) if not _MEASURE.fullmatch(word)]


def _kinds(collection: Any) -> set[str]:
    """Return the terms of what a collection's texts and rows are about.

    What is about one thing names it in the singular: "employees" are those of a rule, and a column `items` is a number.
    """
    terms = analyzer_for(collection.settings.language).terms
    texts = collection.view({"line": {"$exists": False}})  # all but rows
    firsts = [first for first, *_ in islice(texts.documents(), _SAMPLE)]
    begins = [f"{heading_of(first.metadata)} {first.page_content[:_BEGINNING]}" for first in firsts]
    counts = Counter(
        term for text in begins for term in {*terms(" ".join(filterfalse(_PLURAL.fullmatch, _nouns(text))))}
    )
    paths = [PurePath(source.key) for source in collection.sources()]
    of_rows = {suffix for name in _OF_ROWS for suffix in FILE_TYPES[name].suffixes}
    stems = [(re.sub(r"[\W_\d]+", " ", path.stem), path.suffix.lower() in of_rows) for path in paths]
    files = Counter(term for stem, is_table in stems if not is_table for term in {*terms(stem)})
    folders = Counter(term for path in paths for term in {*terms(path.parent.name)})
    limits = ((counts, max(3, 0.2 * len(begins))), (files, max(2, 0.05 * len(paths))), (folders, 3))
    fields = [field.name.replace("_", " ") for field in collection.fields() if field.name not in RESERVED]
    columns = [name for name in fields if not _PLURAL.fullmatch(name.rpartition(" ")[2])]
    names = ["documents files", *columns, *(stem for stem, is_table in stems if is_table)]
    return {term for table, least in limits for term, times in table.items() if times >= least}.union(
        terms(" ".join(names))
    )
