"""Questions with answers, written by a model from your own documents.

    settings = EvalSettings(data="jsonl:run/questions.jsonl", kb="kb", models={"generator": "openai:gpt-4o-mini"})
    write_questions(settings, 50, Path("run"))          # run/questions.jsonl
    evaluate(settings, Path("run"))

Half of the questions need one passage. The other half need two passages of different sources, one about a name that
the other mentions: the question describes the name by what the first passage says, and asks for what the second says.
A question is rejected if its answer is not in the passage, or if it gives away the answer or the name.

The loop is that of `run.py`, in the folder `synthetic`: it can be resumed and pays for no call twice.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.evaluate import EVALUATOR, EvalSettings, open_priced, with_names
from ragweave.evaluation.folder import Record, dropped, read_results, row
from ragweave.evaluation.metrics.judged import ask
from ragweave.evaluation.metrics.text import all_words, stands_in
from ragweave.evaluation.run import FunctionSystem, Run, Summary
from ragweave.nodes.forms import Form, limited
from ragweave.tools.knowledge.names import names_in, sentences, subjects
from ragweave.tools.models import ChatModel
from ragweave.tools.models.budget import Limits
from ragweave.tools.models.messages import task_passage
from ragweave.tools.text.untrusted import render_passages, untrusted

FILE = "questions.jsonl"
_NAME = "synthetic"
_MIN_WORDS = 30
"""Minimum words of a passage that is worth a question."""
_MAX_ANSWER = 10
"""Maximum words of an answer."""
_MAX_MENTIONS = 5
"""Maximum passages that mention a name which links two passages."""
_MAX_REPLIES = 4
"""Maximum replies per wanted question: a model that is too small for this ends the run early."""
_POINTS = re.compile(r"\bpassages?\b|\b(the|this|these) (texts?|documents?|excerpts?|articles?)\b", re.IGNORECASE)
_ONE = """{passages}

Write one question that a reader of these documents might ask, and its answer. The answer is a name, number, date or \
phrase of at most eight words, copied from the passage. The question must make sense to someone who does not see the \
passage: use full names, and do not mention the passage."""
_TWO = """{passages}

Both passages speak of {name}. Write one question that can only be answered with both of them, and its answer. The \
question asks for something that passage 2 says of {name}. It does not use this name, but describes {name} by what \
passage 1 says. The answer is a name, number, date or phrase of at most eight words, copied from passage 2. Do not \
mention the passages."""
_FORM = '\n\nReply as JSON: {{"question": "…", "answer": "…"}}'


class Written(Form):
    """A question and its answer."""

    question: str = limited(300)
    answer: str = limited(100)

    @classmethod
    def from_text(cls, text: str) -> Written | None:
        """Read JSON, or a line for each of the two."""
        if written := cls.from_json(text):
            return written
        pattern = r'question\W*:\W*(.+?)\W*\n?\W*\banswer\W*:\W*([^\n"{}]+)'
        if match := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            ends = "?" if "?" in text and not match[1].endswith("?") else ""
            return cls(question=match[1].strip() + ends, answer=match[2].strip(" '"))
        return None


async def write_question(model: ChatModel, about: Question) -> Record:
    """Write a question about the passages of `about`, or record why the reply is rejected."""
    passages, name = about.passages, about.question
    prompt = (_TWO if name else _ONE) + _FORM
    text = prompt.format(passages=render_passages(passages), name=untrusted(name))
    written = await ask(model, Written, [HumanMessage(text)])
    if written is None:
        return dropped("the reply cannot be read")
    if why := refusal(written, passages, name):
        return dropped(why)
    gold = [{**task_passage(doc), "is_gold": True} for doc in passages]
    return row(id=about.id, question=written.question, answers=[written.answer], passages=gold)


def refusal(written: Written, passages: Sequence[Document], name: str = "") -> str:
    """Return why a question is rejected; "" if it is good.

    The answer must be in the last passage; two passages share `name`.
    """
    question, answer = all_words(written.question), all_words(written.answer)
    *others, last = (all_words(doc.page_content) for doc in passages)
    if _POINTS.search(written.question):
        return "the question mentions its passage"
    if not stands_in(answer, last) or len(answer) > _MAX_ANSWER:
        return "the answer is not a phrase of the passage"
    if stands_in(answer, question):
        return "the question holds the answer"
    if name and (stands_in(all_words(name), question) or any(stands_in(answer, words) for words in others)):
        return "one of the two passages is enough"
    return ""


def write_questions(
    settings: EvalSettings,
    count: int,
    folder: Path,
    *,
    cache: Path | None = None,
    concurrency: int = 16,
    limits: Limits | None = None,
    given: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> tuple[Summary, Counter[str]]:
    """Write `questions.jsonl` into a run's folder, and return how that ended.

    The `evaluator` writes them, or the answering model if there is none. There are `count` questions, or fewer if too many
    replies are rejected. The other arguments are those of `evaluate`; of the settings, knowledge base, models, prices and
    seed are used.

    Returns:
        The summary, and the number of rejected replies by reason.

    Raises:
        UsageError: The model does not write, or the knowledge base is on a server or too small.
    """
    settings = with_names(settings, given or {})
    role = EVALUATOR if EVALUATOR in settings.models else "generator"
    name = settings.models.get(role, "extractive")
    if name.startswith("extractive"):
        raise UsageError(
            "the embedded extractive model only quotes: name a chat model that writes the questions, "
            "--model openai:NAME, or --model evaluator=openai:NAME to answer with extractive"
        )
    plain = {"kb": settings.kb, "count": count, "model": name, "seed": settings.seed}
    todo = islice(candidates(_passages(settings.kb), random.Random(settings.seed)), _MAX_REPLIES * count)

    async def work(run: Run, system: FunctionSystem) -> Summary:
        summary = run.summary()
        while (missing := count - len(_rows(run.folder))) > 0 and not (summary.stopped or summary.failed):
            if not (batch := list(islice(todo, missing))):
                break
            summary = await run.ask(batch, [system], concurrency=concurrency, quiet=quiet, complete=False)
        return summary

    with Run(folder / _NAME, plain, cache, limits) as run:
        model = open_priced(settings, role, (given or {}).get(role, name), run)
        summary = run.conduct(work(run, FunctionSystem(_NAME, partial(write_question, model))))
        rows = _rows(run.folder)[:count]
        refused = Counter(record["dropped"] for record in read_results(run.folder) if record.get("dropped"))
    text = "".join(json.dumps(question, ensure_ascii=False) + "\n" for question in rows)
    (folder / FILE).write_text(text, "utf-8", "replace")
    return summary, refused


def candidates(passages: Sequence[Document], drawn: random.Random) -> Iterator[Question]:
    """Yield the passages to write questions about: one and two passages in turn, each once, in random order."""
    good = [doc for doc in passages if len(all_words(doc.page_content)) >= _MIN_WORDS]
    if not good:
        raise UsageError(f"no passage has {_MIN_WORDS} words, so there is nothing to write questions about")
    pairs = list(_pairs(good))
    drawn.shuffle(good)
    drawn.shuffle(pairs)
    both = chain.from_iterable(zip_longest([("", (doc,)) for doc in good], pairs))
    for at, (name, chosen) in enumerate(filter(None, both)):
        yield Question(id="+".join(str(doc.id) for doc in chosen), question=name, passages=chosen, at=at)


def _pairs(passages: Sequence[Document]) -> Iterator[tuple[str, tuple[Document, ...]]]:
    """Yield each pair of a passage about a name and a passage of another source that mentions it."""
    about: defaultdict[str, list[Document]] = defaultdict(list)
    mentions: defaultdict[str, dict[str, Document]] = defaultdict(dict)
    spelt: dict[str, str] = {}
    for doc in passages:
        names = {name: text for sentence in sentences(doc.page_content) for name, text in names_in(sentence).items()}
        spelt |= names
        for name in names:
            mentions[name][str(doc.id)] = doc
        for name in subjects(doc.page_content, doc.metadata):
            about[name].append(doc)
    seen = set()
    for name, first in ((name, doc) for name, docs in about.items() for doc in docs):
        for second in mentions[name].values() if len(mentions[name]) <= _MAX_MENTIONS else ():
            ids = frozenset((str(first.id), str(second.id)))
            if first.metadata.get("source") != second.metadata.get("source") and ids not in seen:
                seen.add(ids)
                yield spelt[name], (first, second)


def _passages(kb: str) -> list[Document]:
    from ragweave.tools.knowledge import KnowledgeBase, open_knowledge_base

    base = open_knowledge_base(kb)
    if not isinstance(base, KnowledgeBase):
        raise UsageError(
            f"{kb}: questions can only be written from a knowledge base in a folder, not from one on a server"
        )
    return base.passages()


def _rows(folder: Path) -> list[Record]:
    """Return the questions written so far, each text once."""
    rows = [record["row"] for record in read_results(folder) if record.get("row")]
    return list({question["question"]: question for question in rows}.values())
