"""The data sets' forms: how a row of each becomes questions.

Short answers: NQ-open (Lee et al. 2019), TriviaQA (Joshi et al. 2017), WebQuestions (Berant et al. 2013), PopQA (Mallen
et al. 2023), the retriever outputs of DPR (Karpukhin et al. 2020) and FiD (Izacard and Grave 2021), SKR's questions (Wang
et al. 2023), SQuAD (Rajpurkar et al. 2016, 2018), QED (Lamm et al. 2021), HotpotQA (Yang et al. 2018, distractor
setting), 2WikiMultihopQA (Ho et al. 2020), MuSiQue (Trivedi et al. 2022). Long ones: ASQA (Stelmakh et al. 2022), ELI5
(Fan et al. 2019), CLAPNQ (Rosenthal et al. 2024), Wizard of Wikipedia (Dinan et al. 2019). Yes or no: StrategyQA (Geva et
al. 2021), FEVER (Thorne et al. 2018), Fool Me Twice (Eisenschlos et al. 2021); a claim is asked about by a question, is
searched for as it stands (FILCO, section 3.1), and `about` holds its label. KILT (Petroni et al. 2021) has all three. Passages alone: BEIR (Thakur et al. 2021).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets.question import (
    Format,
    Kind,
    Question,
    about,
    answered,
    answers_of,
    id_of,
    marked,
    passage,
    passages_of,
    unique,
)
from ragweave.datasets.rows import Row, open_text, read_rows
from ragweave.errors import UsageError
from ragweave.state import UNKNOWN
from ragweave.tools.text import CLAIM

QUESTION = ("question", "query", "user_input", "input", "Question", "Prompt", "utterance", "qText")
ANSWERS = ("answers", "answer", "golden_answers", "gold", "reference", "Gold answer", "Answer", "possible_answers")
_LISTS = ("passages", "ctxs", "contexts", "retrieved_contexts", "documents", "paragraphs", "ctx")


def read_plain(row: Row) -> Iterator[Question]:
    """Read any row with a question and answers, and its passages and aliases if it has any."""
    if row.has("input", "output"):
        yield from read_kilt(row)
        return
    passages, gold = passages_of(row, *_LISTS)
    if row.has("positive_ctxs"):
        right, _ = passages_of(row, "positive_ctxs")
        wrong = [passages_of(row, name)[0] for name in ("negative_ctxs", "hard_negative_ctxs")]
        passages, gold = unique(chain(right, *wrong)), marked(right)
    yield Question(
        id=id_of(row),
        question=row.text(*QUESTION),
        answers=answered(row, *ANSWERS),
        passages=passages,
        gold=gold,
        about=about(row, "dataset", "metadata", "subj", "prop", "s_pop", "o_pop"),
    )


def read_feedback(row: Row) -> Iterator[Question]:
    """Read what users of an app thought of its answers: one with its thumb up is right, be it Unknown.

    With the thumb down, the right answers are not known, unless someone has added them as `answers`.
    """
    is_good = str(row.get("thumb")).lower() in ("up", "true", "1", "+1", "👍")
    right = answered(row, "answers") if row.has("answers") else answered(row, "answer") if is_good else None
    answers = tuple(answer for answer in right or () if answer != UNKNOWN)
    yield Question(id=id_of(row), question=row.text(*QUESTION), answers=answers, is_known=right is not None)


def read_triviaqa(row: Row) -> Iterator[Question]:
    """Read TriviaQA: one object with `Data`, or rows."""
    if not row.has("Data"):
        yield from read_plain(row)
    for item in row.rows("Data"):
        yield Question(id=item.text("QuestionId"), question=item.text("Question"), answers=answered(item, "Answer"))


_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*+)"|([^\s()]+))\)')


def read_webquestions(row: Row) -> Iterator[Question]:
    """Read WebQuestions: rows, or the authors' lists in Lisp."""
    if row.has("targetValue"):
        quotes = (quoted or bare for quoted, bare in _DESCRIPTION.findall(row.text("targetValue")))
        row = Row(
            {**row.fields, "answers": [re.sub(r"\\(.)", r"\1", quote) for quote in quotes]}, row.where, row.number
        )
    yield from read_plain(row)


def read_squad(row: Row) -> Iterator[Question]:
    """Read SQuAD: one object with `data`, or rows."""
    if not row.has("data"):
        yield from _squad_row(row) if isinstance(row.get("context"), str) else read_plain(row)
    for article in row.rows("data"):
        title = str(article.get("title") or "")
        for paragraph in article.rows("paragraphs"):
            shared = {"context": paragraph.text("context"), "title": title}
            for item in paragraph.rows("qas"):
                yield from _squad_row(Row({**item.fields, **shared}, item.where, item.number))


def _squad_row(row: Row) -> Iterator[Question]:
    context = passage(row.text("context"), str(row.get("title") or "").replace("_", " "))
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=() if row.get("is_impossible") else answers_of(row, "answers", "golden_answers"),
        passages=(context,),
        gold=marked([context]),
    )


def read_qed(row: Row) -> Iterator[Question]:
    """Read QED: Natural Questions over one paragraph."""
    context = passage(row.text("paragraph_text"), str(row.get("title_text") or ""))
    yield Question(
        id=id_of(row),
        question=row.text("question_text"),
        answers=answered(row, "original_nq_answers"),
        passages=(context,),
        gold=marked([context]),
        about={"selected": [str(sentence)] if (sentence := _selected(row)) else []},
    )


def _selected(row: Row) -> str:
    """Return the sentence that the annotators of QED selected."""
    span = (row.get("annotation") or {}).get("selected_sentence") or {}
    start, end = span.get("start"), span.get("end")
    complete = isinstance(start, int) and isinstance(end, int)
    return row.text("paragraph_text")[start:end] if complete else ""


def read_hotpotqa(row: Row) -> Iterator[Question]:
    """Read HotpotQA and 2WikiMultihopQA."""
    if not row.has("context"):
        yield from read_plain(row)
        return
    facts = {(str(title), number) for title, number in _pairs(row, "supporting_facts", "title", "sent_id")}
    titles, passages, selected = {title for title, _ in facts}, list[Document](), list[str]()
    for title, sentences in _pairs(row, "context", "title", "sentences", "content"):
        if not isinstance(sentences, list):
            raise row.error("'context' must be a list of [title, sentences]")
        texts = [str(text or "").strip() for text in sentences]
        selected += [text for at, text in enumerate(texts) if text and (str(title), at) in facts]
        if text := " ".join(filter(None, texts)):
            passages.append(passage(text, str(title)))
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=answered(row, "answers", "answer", "golden_answers"),
        passages=unique(passages),
        gold=marked(doc for doc in passages if doc.metadata.get("title") in titles),
        about={**about(row, "type", "level"), "selected": selected},
    )


def _pairs(row: Row, name: str, first: str, *second: str) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of `[[a, b], …]`, of `{a: […], b: […]}`, or of either as JSON."""
    pairs = row.json(name)
    if isinstance(pairs, Mapping):
        yield from ((part.need(first), part.need(*second)) for part in row.rows(name))
        return
    for pair in pairs if isinstance(pairs, list) else ():
        if not isinstance(pair, list) or len(pair) != 2:
            raise row.error(f"{name!r} must be a list of [{first}, {second[0]}]")
        yield pair[0], pair[1]


def read_musique(row: Row) -> Iterator[Question]:
    """Read MuSiQue; in MuSiQue-Full half of the questions have no answer."""
    passages, gold = passages_of(row, "paragraphs", "ctxs")
    possible = bool(row.fields.get("answerable", True))
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=answered(row, "answers", "answer", "golden_answers") if possible else (),
        passages=passages,
        gold=gold,
        about=about(row, "question_decomposition"),
    )


def read_asqa(row: Row) -> Iterator[Question]:
    """Read ASQA: rows, or the authors' object by split, of which the first of dev, test and train counts."""
    for split in ("dev", "test", "train"):
        if isinstance(row.get(split), Mapping):
            for number, (name, item) in enumerate(row.fields[split].items(), 1):
                yield from read_asqa(Row({"id": name, **item}, f"{row.where}, {name}", number))
            return
    pairs = row.rows("qa_pairs")
    if not pairs:
        yield from read_long(row)
        return
    contexts = [pair for pair in pairs if pair.get("context") not in (None, "", "No context provided")]
    passages = unique(passage(context.text("context"), str(context.get("wikipage") or "")) for context in contexts)
    yield Question(
        id=id_of(row, "sample_id"),
        question=row.text("ambiguous_question", "question"),
        answers=tuple(annotation.text("long_answer") for annotation in row.rows("annotations")),
        parts=tuple(answered(pair, "short_answers") for pair in pairs),
        kind="parts",
        passages=passages,
        gold=marked(passages),
    )


def read_long(row: Row) -> Iterator[Question]:
    """Read ELI5, Wizard of Wikipedia, and other questions with long answers."""
    if row.has("input", "output"):
        yield from read_kilt(row, "long")
    elif not row.has("title"):
        yield from (replace(question, kind="long") for question in read_plain(row))
    else:
        more = str(row.get("selftext") or "").strip()
        yield Question(
            id=id_of(row, "q_id"),
            question=f"{row.text('title')}\n{more}".strip(),
            answers=answered(row, "answers", "golden_answers"),
            kind="long",
        )


def read_clapnq(row: Row) -> Iterator[Question]:
    """Read CLAPNQ: long answers over passages with selected sentences; some questions have no answer."""
    outputs = row.rows("output")
    chosen = {str(sentence) for output in outputs for sentence in output.json("selected_sentences") or ()}
    answers = tuple(dict.fromkeys(str(output.get("answer")) for output in outputs if output.get("answer")))
    passages, gold = [], []
    for item in row.rows("passages"):
        sentences = [str(sentence) for sentence in item.json("sentences") or ()]
        passages.append(read_passage(item))
        if chosen & set(sentences) or (answers and not sentences):
            gold.append(passages[-1])
    yield Question(
        id=id_of(row),
        question=row.text("input"),
        answers=answers,
        kind="long",
        passages=unique(passages),
        gold=marked(gold),
        about={"selected": sorted(chosen)},
    )


LABELS = {"Yes": "SUPPORTS", "No": "REFUTES"}
"""FEVER's labels by answer."""
_VERDICTS = {
    **dict.fromkeys(("supports", "supported", "true", "yes"), "Yes"),
    **dict.fromkeys(("refutes", "refuted", "false", "no"), "No"),
}
_UNDECIDED = "NOT ENOUGH INFO"


def verdict(text: str) -> str:
    """Return the Yes or No that a label means; "" for any other text."""
    return _VERDICTS.get(text.strip().lower(), "")


def _verdicts(row: Row, labels: Iterable[str]) -> tuple[str, ...]:
    verdicts = dict.fromkeys(map(verdict, labels))
    if "" in verdicts:
        raise row.error(f"the label must be SUPPORTS or REFUTES, Yes or No, not {list(labels)}")
    return tuple(verdicts)


def read_strategyqa(row: Row) -> Iterator[Question]:
    """Read StrategyQA, with the facts that decide."""
    facts, term = row.json("facts"), str(row.get("term") or "")
    facts = facts if isinstance(facts, list) else [facts] if facts else []
    passages = unique(passage(str(fact), term) for fact in facts)
    yield Question(
        id=id_of(row),
        question=row.text("question"),
        answers=_verdicts(row, answered(row, "answers", "answer", "golden_answers")),
        kind="yes_no",
        passages=passages,
        gold=marked(passages),
        about=about(row, "decomposition"),
    )


def read_fever(row: Row) -> Iterator[Question]:
    """Read FEVER, KILT's FEVER, or Fool Me Twice."""
    if row.has("input", "output"):
        yield from read_kilt(row, "yes_no")
        return
    title = str(row.get("wikipedia_page") or "")
    right = [passage(evidence.text("text"), title) for evidence in row.rows("gold_evidence")]
    retrieved = [passage(evidence.text("text"), title) for evidence in row.rows("retrieved_evidence")]
    labels = answers_of(row, "answers", "label", "golden_answers")
    answers = () if labels == (_UNDECIDED,) else _verdicts(row, labels)
    claim = row.text("claim", "text", "question")
    yield Question(
        id=id_of(row),
        question=CLAIM + claim,
        query=claim,
        answers=answers,
        kind="yes_no",
        passages=unique([*right, *retrieved]),
        gold=marked(right),
        about={"label": [LABELS[answer] for answer in answers]},
    )


def read_kilt(row: Row, kind: Kind = "short") -> Iterator[Question]:
    """Read KILT: `input` and `output`, answers with their provenance."""
    outputs = row.rows("output")
    answers = tuple(dict.fromkeys(str(output.get("answer")) for output in outputs if output.get("answer")))
    if not answers:
        raise row.error("no right answer: no 'output' has an 'answer'")
    sources = [source for output in outputs for source in output.rows("provenance") if source.get("text")]
    passages = unique(map(read_passage, sources))
    text = row.text("input")
    claim = kind == "yes_no" or all(answer in LABELS.values() for answer in answers)
    verdicts = _verdicts(row, answers) if claim else answers
    yield Question(
        id=id_of(row),
        question=CLAIM + text if claim else text,
        query=text if claim else "",
        answers=verdicts,
        kind="yes_no" if claim else kind,
        passages=passages,
        gold=marked(passages),
        about={"label": [LABELS[answer] for answer in verdicts]} if claim else {},
    )


def read_beir(folder: Path) -> Iterator[Question]:
    """Read BEIR: the queries that have judgements, with their grades."""
    grades = _grades(folder)
    for row in read_rows(_packed(folder / "queries.jsonl")):
        name = row.text("_id")
        if name in grades:
            yield Question(id=name, question=row.text("text"), kind="retrieval", gold=grades[name])


def _grades(folder: Path) -> dict[str, dict[str, float]]:
    tables = [folder / "qrels" / f"{split}.tsv" for split in ("test", "dev", "train")]
    path = next((table for table in tables if table.exists()), None)
    if path is None:
        raise UsageError(f"{folder}: a BEIR folder needs qrels/test.tsv, dev.tsv or train.tsv")
    grades: dict[str, dict[str, float]] = {}
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            cells = line.split()
            graded = bool(cells) and cells[-1].lstrip("-").isdigit()
            if not cells or (number == 1 and not graded):
                continue
            if len(cells) not in (3, 4) or not graded:
                raise UsageError(f"{path}:{number}: must be query-id, corpus-id and score")
            if int(cells[-1]) > 0:
                grades.setdefault(cells[0], {})[cells[-2]] = float(cells[-1])
    return grades


def beir_corpus(folder: Path) -> Iterator[Document]:
    """Yield the documents of a BEIR folder; a document without a text has its title as text."""
    for row in read_rows(_packed(folder / "corpus.jsonl")):
        title, text = (str(row.get(field) or "").strip() for field in ("title", "text"))
        if title or text:
            yield passage(text or title, title, row.text("_id"))


def read_passage(row: Row) -> Document:
    """Read a row of a corpus: a text and perhaps a title."""
    return passage(row.text("text"), str(row.get("title") or ""))


def _packed(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


FORMATS = (
    Format("hotpotqa", "HotpotQA: paragraphs and supporting facts.", read_hotpotqa, (("context", "supporting_facts"),)),
    Format("2wiki", "2WikiMultihopQA: paragraphs and supporting facts.", read_hotpotqa),
    Format("musique", "MuSiQue: paragraphs and the decomposition.", read_musique, (("question_decomposition",),)),
    Format("squad", "SQuAD 1.1 and 2.0.", read_squad, (("data",), ("context", "question", "answers"))),
    Format("qed", "QED: Natural Questions over one paragraph.", read_qed, (("question_text", "paragraph_text"),)),
    Format("asqa", "ASQA: long answers that cover several short ones.", read_asqa, (("qa_pairs",),)),
    Format("eli5", "ELI5: long answers, without passages.", read_long, (("q_id", "title"),)),
    Format("wow", "Wizard of Wikipedia, in KILT's form.", read_long),
    Format("clapnq", "CLAPNQ: long answers over passages.", read_clapnq, (("input", "passages", "output"),)),
    Format("strategyqa", "StrategyQA: Yes or No.", read_strategyqa, (("question", "answer", "term", "facts"),)),
    Format("fever", "FEVER: claims to verify.", read_fever, (("claim", "label"),)),
    Format("fool_me_twice", "Fool Me Twice: claims with evidence.", read_fever, (("text", "label", "gold_evidence"),)),
    Format("kilt", "KILT: knowledge tasks over Wikipedia, with provenance.", read_kilt),
    Format("jsonl", "Any rows with a question and answers, and passages and aliases if they have any.", read_plain),
    Format("feedback", "Thumbs of an app's users.", read_feedback, (("question", "answer", "thumb"),)),
    Format("csv", "Any table with a question and answers.", read_plain),
    Format("tsv", "Any table with a question and answers, separated by tabs.", read_plain),
    Format("nq", "Natural Questions, open; DPR's and FiD's files too.", read_plain),
    Format("dpr", "The retriever outputs of DPR, Contriever and ALCE.", read_plain, (("positive_ctxs",),)),
    Format("webquestions", "WebQuestions.", read_webquestions, (("utterance", "targetValue"),)),
    Format("triviaqa", "TriviaQA: answers with aliases.", read_triviaqa, (("Data",),)),
    Format("popqa", "PopQA: long-tail entities with their popularity.", read_plain, (("possible_answers",),)),
    Format("skr", "The released questions of SKR, with passages.", read_plain, (("Gold answer",),)),
    Format("beir", "A BEIR folder.", read_plain, read_folder=read_beir, corpus=beir_corpus),
)
"""A file given without a name is tried in this order."""
