"""How well replies are read: recorded replies, real refusals, and replies made to hang a reader.

    python benchmarks/reader.py [--wrong]

* 674 replies of three small models at every step of the methods (`tests/recorded`), read by the forms and
  readers of the methods; what each means was written down by people. Floors: 95 %, and 98 % of those that
  had to fill a form.
* 140 wordings of ids, verdicts and steps, written without a model. Floor: 95 % of each.
* 131 refusals and 2,116 answers of Llama 2 and 3.1 (`../shared/data`), none of which the reader was written
  with. Floors: 115 refusals read as Unknown, 98.5 % of the answers not.
* Refusals of a small model and answers in German, French, Spanish, Chinese, Japanese and Korean
  (`tests/recorded/refusals_by_language.json`). Floors: 95 % of the refusals, all answers.
* 23 replies of up to 300,000 characters that make careless patterns backtrack: seconds of the slowest.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragweave.graphs import chain_of_note, crag, ircot, react, self_ask, self_eval, slimplm, sure
from ragweave.nodes import forms, read, route
from ragweave.state import UNKNOWN
from ragweave.tools.models.messages import without_thoughts
from ragweave.tools.text.words import normalize_answer

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
RECORDED = HERE.parent / "tests" / "recorded"
LABELS = HERE / "refusals.labels"
REASONING = ("cot", "pruning", "summary", "reason", "flare", "answer_cot")
FREE = ("draft", "external", "internal", "read", "summarise", "consolidate")


def records() -> list[dict[str, Any]]:
    """Return the recorded replies, with what each means."""
    names = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m")
    return [json.loads(line) for name in names for line in (RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines()]


def as_meant(record: dict[str, Any]) -> bool:
    """Say whether a recorded reply is read as it is meant; texts are compared by their normalised words."""
    return _words(json.loads(json.dumps(read_record(record)))) == _words(record["meant"])


def _words(value: Any) -> Any:
    if isinstance(value, list):
        return [_words(item) for item in value]
    return normalize_answer(value) if isinstance(value, str) else value


def _form(form: Any, field: str) -> Callable[[str], Any]:
    def read_form(text: str) -> Any:
        filled = form.from_text(text)
        return None if filled is None else getattr(filled, field)

    return read_form


VERDICTS: dict[str, Callable[[str], Any]] = {
    "judge": lambda text: {"True": True, "False": False}.get(_form(slimplm.Verdict, "known")(text)),
    "judge_claim": lambda text: {"True": True, "False": False}.get(_form(slimplm.Verdict, "known")(text)),
    "need": lambda text: {"Yes": True, "No": False}.get(_form(self_eval.Need, "needed")(text)),
    "classify": lambda text: route.ROUTE_BY_WORD.get(_form(route.Complexity, "searches")(text)),
    "grade": _form(crag.Grade, "grade"),
    "keywords": _form(crag.Keywords, "query"),
    "verify": lambda text: {"True": True, "False": False}.get(_form(sure.Validity, "supported")(text)),
    "rank": lambda text: {"Passage 1": 1, "Passage 2": 2}.get(_form(sure.Preference, "better")(text)),
    "propose": lambda text: _form(sure.Candidates, "candidates")(text)[:2],
    "recall": lambda text: [] if read.is_unknown(text) else [read.plain(text)],
    "gate": lambda text: UNKNOWN if read.is_unknown(text) else "text",
}


def read_record(record: dict[str, Any]) -> Any:
    """Read a recorded reply as its step does."""
    node, reply, kind = record["node"], record["reply"], record["answer_type"]
    if node in VERDICTS:
        return VERDICTS[node](read.plain(reply))
    if node in ("refine", "filter_context") or (node == "knowledge_filter" and _asks_ids(record)):
        return _ids(record)
    if node in (*FREE, "knowledge_filter"):
        return "text" if read.plain(reply) else ""
    if node == "topic":
        topic = read.phrase(reply, "topic", "is related to", "is about")
        return topic if len(topic) <= 120 else ""
    if node in STEPS and (node != "reason" or record["method"] in ("ircot", "adaptive_rag")):
        return STEPS[node](record)
    if node == "chain_of_note":
        reply = chain_of_note.without_notes(reply, kind)
        return read.answer(reply, kind, reasoning=kind != "long")
    return read.answer(reply, kind, reasoning=node in REASONING)


def _asks_ids(record: dict[str, Any]) -> bool:
    return "ONLY the ids" in record["prompt"][-1][1]


def _ids(record: dict[str, Any]) -> list[int] | None:
    shown = "\n".join(text for _, text in record["prompt"])
    numbers = re.findall(r"^(?:strip|sentence) (\d+) :", str(record["prompt"][-1][1]), re.M)
    first = int(numbers[0]) if numbers else 0 if re.search(r"^knowledge 0 :", shown, re.M) else int(_asks_ids(record))
    ids = read.ids(record["reply"], first, first + len(numbers or record["titles"]) - 1)
    return None if ids is None else sorted(number - first for number in ids)


def _react(record: dict[str, Any]) -> list[str]:
    step = react.Action.from_text(read.plain(record["reply"]).split("\nObservation")[0])
    shown, _, own = "\n".join(text for _, text in record["prompt"]).rpartition("Question: ")
    if step is None or read.copied(step.input, shown, own):
        return ["none", ""]
    return ["search", step.input] if step.action == "Search" else ["finish", read.answer(step.input)]


def _self_ask(record: dict[str, Any]) -> list[str]:
    step = self_ask.Line.from_text(read.plain(record["reply"]))
    if step is None:
        return ["unreadable", ""]
    return ["follow_up", step.text] if step.kind == "Follow up" else ["final", read.answer(step.text)]


def _ircot(record: dict[str, Any]) -> list[str]:
    so_far = str(record["prompt"][-1][1]).rpartition("Reasoning so far: ")[2].partition("\n")[0]
    sentence = ircot.next_sentence(record["reply"], re.split(r"(?<=[.!?])\s+", so_far))
    return ["", ""] if read.is_unknown(sentence) else [sentence, ircot.concluded(sentence, record["answer_type"])]


def _rewrite(record: dict[str, Any]) -> list[list[str]]:
    rewrite = slimplm.Rewrite.from_text(read.plain(record["reply"]))
    searches = [*rewrite.questions, *rewrite.claims] if rewrite else []
    pairs = dict.fromkeys((item.text, (item.query or item.text) if item.needs_search else "") for item in searches)
    return [list(pair) for pair in pairs]


WORDED: dict[str, Callable[[str], Any]] = {
    "ids": _form(forms.ids_form(1, 5), "ids"),
    "yes_no": lambda text: read.answer(getattr(forms.YesNo.from_text(text), "answer", text), "yes_no"),
    "known": _form(slimplm.Verdict, "known"),
    "grade": _form(crag.Grade, "grade"),
    "need": _form(self_eval.Need, "needed"),
    "route": _form(route.Complexity, "searches"),
    "react": lambda text: _fields(react.Action.from_text(text), "action", "input"),
    "self_ask": lambda text: _fields(self_ask.Line.from_text(text), "kind", "text"),
}


def _fields(form: Any, *names: str) -> list[str]:
    return [getattr(form, name, "") for name in names]


def wordings() -> list[tuple[dict[str, Any], bool]]:
    """Return what ids, verdicts and steps are worded like, and whether each is read as meant."""
    rows = [json.loads(line) for line in (RECORDED / "wordings.jsonl").read_text("utf-8").splitlines()]
    return [(row, _words(WORDED[row["form"]](read.plain(row["reply"]))) == _words(row["meant"])) for row in rows]


STEPS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "react": _react,
    "self_ask": _self_ask,
    "reason": _ircot,
    "rewrite": _rewrite,
}


def replies() -> Iterator[tuple[str, list[str]]]:
    """Yield replies of Llama 2 and 3.1 with the gold answers, each once, without those of `tests/recorded`."""
    tuned = [(RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines() for name in ("answers", "refusals")]
    seen = {json.loads(line)["text"] for lines in tuned for line in lines}
    for reply, gold in _all():
        if reply.strip() and reply not in seen:
            seen.add(reply)
            yield reply, gold


def _all() -> Iterator[tuple[str, list[str]]]:
    for path in sorted((DATA / "recorded-llama31-8b").glob("*.gz")):
        for row in _rows(path):
            texts = (text for way in ("no_retrieval", "one_round", "ircot") for text in (row[way] or {}).values())
            yield from ((text, list(_flat(row["answers"]))) for text in texts if isinstance(text, str))
    for name in ("judge-llama7b-dev", "judge-llama7b-train", "judge2-llama7b-val"):
        for row in _rows(DATA / "slimplm" / f"{name}.jsonl.gz"):
            yield row["llama7b_without_search_answer"], list(_flat(row.get("short_answers") or row.get("answer")))
    for row in _rows(DATA / "slimplm" / "rewrite-llama13b-dev.jsonl.gz"):
        gold = row.get("answer") or [output.get("answer") for output in row.get("output") or ()]
        yield row["llama13b_without_search_answer"], list(_flat(gold))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _flat(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)


def refusals() -> tuple[list[bool], list[bool]]:
    """Return which refusals are read as Unknown, and which replies that hold a gold answer are not."""
    marks = {mark for listed in json.loads(LABELS.read_text("utf-8")).values() for mark in listed}
    refused, answered = list[bool](), list[bool]()
    for reply, gold in replies():
        text = f" {normalize_answer(reply)} "
        if hashlib.blake2b(reply.encode(), digest_size=8).hexdigest() in marks:
            refused.append(read.is_unknown(reply))
        elif any(answer and f" {answer} " in text for answer in map(normalize_answer, gold)):
            answered.append(not read.is_unknown(reply))
    return refused, answered


def by_language() -> dict[str, tuple[list[bool], list[bool]]]:
    """Return, for each language, which refusals are read as Unknown, and which answers are not."""
    texts = json.loads((RECORDED / "refusals_by_language.json").read_text("utf-8"))
    return {
        language: (
            [read.answer(text) == UNKNOWN for text in rows["refusals"]],
            [read.answer(text) != UNKNOWN for text in rows["answers"]],
        )
        for language, rows in texts.items()
    }


HOSTILE = {
    **{name: unit * 100_000 for name, unit in {"parens": "(", "brackets": "[", "stars": "*", "quotes": "'"}.items()},
    **{name: unit * 20_000 for name, unit in {"search": "Search[", "claims": "<Claim(", "think": "<think>"}.items()},
    **{name: unit * 20_000 for name, unit in {"untaught": "</think>", "boxed": r"\boxed{", "range": "1-999 "}.items()},
    **{
        name: unit * 30_000
        for name, unit in {"answer": "answer is ", "no": "no ", "json": '{"a":', "not": "not "}.items()
    },
    "newlines": "\n" * 300_000,
    "lines": "a\n" * 150_000,
    "blanks": "So " + " " * 200_000 + "x",
    "channel": "<|channel|>analysis" * 10_000,
    "question": "answer to this question " * 9_000,
    "sources": "passages " * 20_000,
    "underscores": "_" * 100_000,
    "letters": "x" * 200_000,
    "words": "i " * 100_000,
}


def slowest() -> tuple[float, str]:
    """Return the seconds and the name of the slowest reading of a hostile reply."""
    readers: list[Callable[[str], Any]] = [
        without_thoughts,
        lambda text: read.answer(text, reasoning=True),
        lambda text: read.answer(text, "long"),
        lambda text: read.answer(text, "yes_no"),
        read.is_unknown,
        lambda text: read.choice(text, "Correct", "Incorrect"),
        lambda text: read.ids(text, 1, 20),
        read.listed,
        lambda text: read.phrase(text, "query", "topic"),
        lambda text: react.Action.from_text(read.plain(text)),
        lambda text: self_ask.Line.from_text(read.plain(text)),
        lambda text: slimplm.Rewrite.from_text(read.plain(text)),
    ]
    worst = (0.0, "")
    for name, text in HOSTILE.items():
        for reader in readers:
            started = time.process_time()
            reader(text)
            worst = max(worst, (time.process_time() - started, name))
    return worst


def main() -> None:
    """Measure and print; with --wrong also print the recorded replies that are misread."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--wrong", action="store_true", help="print the replies that are misread")
    arguments = parser.parse_args()
    recorded = records()
    misread = [record for record in recorded if not as_meant(record)]
    _share("recorded replies read as meant", len(recorded) - len(misread), len(recorded))
    constrained = sum(bool(record["grammar"]) for record in recorded)
    _share("of those that filled a form", constrained - sum(bool(record["grammar"]) for record in misread), constrained)
    totals, wrong = (Counter(record["node"] for record in some) for some in (recorded, misread))
    print("most misread: " + ", ".join(f"{node} {count} of {totals[node]}" for node, count in wrong.most_common(5)))
    for record in misread if arguments.wrong else ():
        print(f"--- {record['node']}: {record['reply'][:300]!r}")
        print(f"    read {read_record(record)}, meant {record['meant']}")
    worded = wordings()
    for kind in ("ids", "verdict", "step"):
        as_worded = [is_read for row, is_read in worded if row["kind"] == kind]
        _share(f"wordings read as meant: {kind}", sum(as_worded), len(as_worded))
    for row, is_read in worded if arguments.wrong else ():
        if not is_read:
            print(f"--- {row['form']}: {row['reply']!r}, meant {row['meant']}")
    for language, (declined, answers) in by_language().items():
        _share(f"{language}: refusals read as Unknown", sum(declined), len(declined))
        _share(f"{language}: answers not read so", sum(answers), len(answers))
    if DATA.exists():
        refused, answered = refusals()
        _share("refusals read as Unknown", sum(refused), len(refused))
        _share("answers not read as Unknown", sum(answered), len(answered))
    seconds, name = slowest()
    print(f"slowest hostile reply            {seconds:.2f} s ({name})")


def _share(label: str, count: int, total: int) -> None:
    print(f"{label:<33}{count} of {total} ({count / total:.1%})")


if __name__ == "__main__":
    main()
