"""Questions that come with the paragraphs that answer them, one or many.

* QED (Lamm et al. 2021) and the questions that SKR released (Wang et al. 2023, Self-Knowledge
  Guided Retrieval).
* SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): one object whose articles hold paragraphs and
  their questions.
* StrategyQA (Geva et al. 2021): yes/no questions with the facts that decide them.
* Multi-hop questions: HotpotQA (Yang et al. 2018, distractor setting), 2WikiMultihopQA (Ho et al.
  2020), MuSiQue (Trivedi et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.documents import Document

from ragweave.datasets.question import Format, Question, each_once, has, passage, unquoted
from ragweave.datasets.rows import NO_GOLD, Row, pick


def _read_qed(row: Row) -> Iterator[Question]:
    groups = [
        Row({"original_nq_answers": one}, row.where, row.number)
        for one in row.listed("original_nq_answers")
    ]
    texts = [
        part.fields.get("string") for one in groups for part in one.items("original_nq_answers")
    ]
    starts = row.listed("sentence_starts")
    marked = row.item("annotation").item("selected_sentence", optional=True)
    start = marked.fields.get("start")
    yield Question(
        id=row.id("example_id"),
        question=row.text("question_text"),
        answers=Row({"original_nq_answers": texts}, row.where, row.number).texts(
            "original_nq_answers"
        ),
        passages=(
            passage(
                row.text("paragraph_text"),
                str(row.fields.get("title_text") or ""),
                gold=True,
                gold_sentences=[starts.index(start)] if start in starts else [],
            ),
        ),
    )


def _read_skr(row: Row) -> Iterator[Question]:
    yield Question(
        id=row.id("Id"),
        question=row.text("Question"),
        answers=row.texts("Gold answer"),
        passages=each_once(_titled(row, row.value("passages"))),
    )


def _titled(row: Row, value: object) -> Iterator[Document]:
    """Yield the passages of a list, however nested; each is a title, a line break, a text."""
    if isinstance(value, list):
        for one in value:
            yield from _titled(row, one)
    elif isinstance(value, str):
        title, _, text = value.partition("\n")
        if value.strip():
            yield passage((text or title).strip(), unquoted(title) if text else "")
    else:
        raise row.error("'passages' must be a list of strings")


QED = Format(
    name="qed",
    summary="QED: Natural Questions over one paragraph.",
    datasets=("qed",),
    expects="example_id, question_text, paragraph_text, sentence_starts, original_nq_answers",
    fits=has("question_text", "paragraph_text", "original_nq_answers"),
    read=_read_qed,
)
SKR = Format(
    name="skr",
    summary="The released questions of SKR, with passages.",
    datasets=("skr",),
    expects="Id, Question, Gold answer, passages",
    fits=has("Question", "Gold answer", "passages"),
    read=_read_skr,
)


def _read_squad(row: Row) -> Iterator[Question]:
    for article in row.items("data"):
        title = str(article.fields.get("title") or "").replace("_", " ")
        for paragraph in article.items("paragraphs"):
            context = passage(paragraph.text("context"), title, gold=True)
            for one in paragraph.items("qas"):
                answerable = not one.fields.get("is_impossible", False)
                texts = [gold.text("text") for gold in one.items("answers")] if answerable else []
                if answerable and not texts:
                    raise one.error(f"{NO_GOLD}: 'answers' is empty and 'is_impossible' is not set")
                yield Question(
                    id=one.text("id"),
                    question=one.text("question"),
                    answers=tuple(dict.fromkeys(texts)),
                    passages=(context,),
                    answerable=answerable,
                )


SQUAD = Format(
    name="squad",
    summary="SQuAD 1.1 and 2.0: questions nested below paragraphs.",
    datasets=("squad",),
    expects="one object with data, a list of articles with paragraphs (context, qas)",
    fits=has("data"),
    read=_read_squad,
)


def _read_strategyqa(row: Row) -> Iterator[Question]:
    answer = row.value("answer")
    if not isinstance(answer, bool):
        raise row.error(f"'answer' must be true or false, not {answer!r}")
    term = str(row.fields.get("term") or "")
    yield Question(
        id=row.id("qid"),
        question=row.text("question"),
        answers=("Yes" if answer else "No",),
        scoring="accuracy",
        answer_type="yes_no",
        passages=tuple(
            passage(fact, term, gold=True) for fact in row.texts("facts", optional=True)
        ),
        about=pick(row.fields, "decomposition", "description"),
    )


STRATEGYQA = Format(
    name="strategyqa",
    summary="StrategyQA: yes or no, with the decomposition.",
    datasets=("strategyqa",),
    expects="qid, question, answer (true or false), facts",
    fits=lambda fields: has("qid", "question")(fields) and isinstance(fields.get("answer"), bool),
    read=_read_strategyqa,
)


def _read_hotpot(row: Row) -> Iterator[Question]:
    facts: dict[str, list[int]] = {}
    for title, sentence in _pairs(row, "supporting_facts"):
        facts.setdefault(str(title), []).append(int(sentence))
    yield Question(
        id=row.id("_id", "id"),
        question=row.text("question"),
        answers=row.texts("answer"),
        passages=tuple(_paragraphs(row, facts)),
        about=pick(row.fields, "type", "level", "evidences"),
    )


def _pairs(row: Row, name: str) -> Iterator[tuple[object, int]]:
    for pair in row.listed(name):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], int):
            raise row.error(f"{name!r} must be a list of [title, sentence number]")
        yield pair[0], pair[1]


def _paragraphs(row: Row, facts: dict[str, list[int]]) -> Iterator[Document]:
    for pair in row.listed("context"):
        if not isinstance(pair, list) or len(pair) != 2 or not _are_sentences(pair[1]):
            raise row.error("'context' must be a list of [title, sentences]")
        title, sentences = str(pair[0]), [(one or "").strip() for one in pair[1]]
        text = " ".join(filter(None, sentences))
        if text:
            found = sorted(set(facts.get(title, ())))
            yield passage(text, title, gold=title in facts, gold_sentences=found)


def _are_sentences(value: object) -> bool:
    return isinstance(value, list) and all(one is None or isinstance(one, str) for one in value)


def _read_musique(row: Row) -> Iterator[Question]:
    """Read a question; in MuSiQue-Full each stands twice under its id, once without an answer."""
    answerable = bool(row.fields.get("answerable", True))
    aliases = row.texts("answer_aliases", optional=True)
    answers = (*row.texts("answer"), *aliases) if answerable else ()
    paragraphs = row.items("paragraphs")
    yield Question(
        id=row.id("id") if answerable else f"{row.id('id')}#unanswerable",
        question=row.text("question"),
        answers=tuple(dict.fromkeys(answers)),
        passages=tuple(
            passage(
                one.text("paragraph_text"),
                str(one.fields.get("title") or ""),
                gold=bool(one.fields.get("is_supporting")),
            )
            for one in paragraphs
        ),
        answerable=answerable,
        about={
            "hops": len(row.listed("question_decomposition", optional=True)),
            **pick(row.fields, "question_decomposition"),
        },
    )


HOTPOTQA = Format(
    name="hotpotqa",
    summary="HotpotQA and 2WikiMultihopQA: paragraphs and supporting facts.",
    datasets=("hotpotqa", "2wiki"),
    expects="_id, question, answer, context ([title, sentences] pairs), supporting_facts",
    fits=has("question", "answer", "context", "supporting_facts"),
    read=_read_hotpot,
)
MUSIQUE = Format(
    name="musique",
    summary="MuSiQue: paragraphs and the question's decomposition.",
    datasets=("musique",),
    expects="id, question, answer, paragraphs (title, paragraph_text, is_supporting)",
    fits=has("question", "answer", "paragraphs", "question_decomposition"),
    read=_read_musique,
)
