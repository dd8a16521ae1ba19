"""The reader of free-text replies, for all steps.

A reply that was constrained to its form is parsed by the form's schema and never gets here. This module
reads other models' replies, replies to the papers' own prompts, and answers, which have no form. It
invents nothing: if a text does not say what was asked for, the answer is `Unknown`, and anything else
is None. Every pattern takes time linear in the text.
"""

import json
import re
from collections.abc import Iterable

from langchain_core.documents import Document

from ragweave.nodes.refusals import DECLINES, KNOWING, WORDS
from ragweave.state import UNKNOWN, AnswerType
from ragweave.tools.citations import without_marks
from ragweave.tools.models.messages import without_thoughts
from ragweave.tools.text.untrusted import title_of
from ragweave.tools.text.words import split_sentences

MAX_CHARACTERS = 20_000
"""Maximum number of characters of a reply that are read: half from its start, half from its end."""

MAX_QUERY_CHARACTERS = 2000
"""Maximum number of characters of a reply that go into a query; the question follows uncut."""


_FENCE = re.compile(r"^[ \t]*```[^\n]*$", re.M)
_WRAP = re.compile(r"\A```[ \t]*\n([^`]*)```\Z")
_AROUND = " \t\r\n*_`\"'“”‘’\ufeff\u200b"
_ANSWER = re.compile(
    r"\b(?:so|thus|hence|therefore),? (?:the |my )?(?:final |correct |short )?answer(?: is|[:：])\s*[:：]?"
    r"|(?:^|(?<=[.!?,;:] ))[\W_]{0,12}(?:the |my )?(?:final |correct |short )?(?:answer|judgement)"
    r"(?: to (?:the|this|your) question[^\n]{0,300}?)?[*_ ]*(?: is\b|[:：])\s*[:：]?"
    r"|^[#*_ ]{0,12}(?:final |short )?answer[*_ ]*$"
    r"|(?:^|(?<=[。，,]))[\W_]{0,12}(?:最终|正确)?(?:答案|回答|答え|정답|답변?|antwort|réponse|respuesta)[*_ ]*(?:[:：]|是|は)[*_ ]*[:：]?"
    r"|<answer>|\\boxed\{(?:\\\w+\{)?",
    re.I | re.M,
)
"""What introduces an answer."""
_BOX = re.compile(r"\\boxed\{(?:\\\w+\{)?")
_LABEL = re.compile(r"\A[\W_]{0,12}(?:the |my )?(?:final |short )?answer[*_ ]*(?:[:：]\s*|\n\s*)|</?answer>", re.I)
_YES, _NO = r"(?:yes|oui|ja|sí)\b(?!-)|是(?!否)|对|はい|네|예", r"(?:no|non|nein)\b(?!-)|不|否|いいえ|아니"
_TRUE, _FALSE = r"(?:true|correct|supports|supported)\b", r"(?:false|incorrect|refutes|refuted)\b"
_VERDICT = (
    rf"(?:(?P<yes>{_YES})|(?P<no>{_NO})|(?:(?:it|that|this|the (?:claim|statement)) (?:is|was) )?(?P<not>not )?"
    rf"(?:(?P<true>{_TRUE})|(?P<false>{_FALSE})))"
)
_AFTER = re.compile(r"</answer>.*", re.S | re.I)
_TABLE_HEADER = re.compile(r"^[ \t]*\|[^\n]*\n[ \t]*\|[ \t:|-]+$", re.M)
_ITEM_MARK = re.compile(r"\A(?:#{1,6}|[-•*+]|1[.)])[ \t]+(?=\S)")
"""What stands before an answer that is written as a heading or as the first item of a list."""
_NAME = re.compile(
    r"\b[A-Z][\w']{0,40}(?:[ -](?:(?:of|the|and|in|for|to|a|de|la) ){0,2}[A-Z][\w']{0,40})+"
    r"|\b(?P<thing>(?i:an?|some|the) unknown [a-z]+)"
    r"|《[^》\n]+》|「[^」\n]+」|“[^”\n]+”|\"[^\"\n]+\""
)
"""A name of several words, a quoted title, or an "unknown" thing."""
_TAG = re.compile(r"</?[a-z][^<>]{0,80}>|\\boxed\{\}", re.I)
"""A tag, or an empty box, which says nothing by itself."""
_BUT = re.compile(r"\b(?:but|however)\b(?=.*\w)")


def plain(reply: str) -> str:
    """Return a reply, bounded, without thoughts and code fences."""
    half = MAX_CHARACTERS // 2
    text = reply if len(reply) <= MAX_CHARACTERS else f"{reply[:half]}\n{reply[-half:]}"
    return _FENCE.sub("", whole(text)).strip()


def whole(reply: str) -> str:
    """Return a reply without thoughts, and without a code fence that names no language and holds all of it."""
    return _WRAP.sub(r"\1", without_thoughts(reply)).replace("’", "'").strip()


def bare(text: str) -> str:
    """Return a text without the marks around it and its full stop; an initial keeps its own."""
    text = text.strip(_AROUND)
    ends = text.endswith((".", "。")) and not re.search(r"\b\w\Z", text[-3:-1])
    return (text[:-1] if ends else text).strip(_AROUND)


def text_read(question: str, passages: Iterable[Document]) -> str:
    """Return what a model was shown: the question, and the titles and texts of the passages."""
    return " ".join([question, *(f"{title_of(doc)} {doc.page_content}" for doc in passages)]).replace("’", "'")


def is_unknown(reply: str, seen: str = "") -> bool:
    """Return whether a reply declines to answer: by the word, or by its first sentence, up to a "but" that gives an answer.

    Names and quoted titles that stand word for word in `seen` (`text_read`) decline nothing, such as "The Unknown
    Soldier". The word Unknown alone declines, even if it is in a passage.
    """
    text = plain(reply)
    text = bare(text[_last_mark(text) :])
    says = re.search(r"\w", text if text in seen else _TAG.sub("", text))
    if not says or WORDS.fullmatch(text.casefold().strip(" .,:;!?…()[]{}<>-–—。")):
        return True
    text = re.sub(r"\A[^.!?。？\n]{1,300}[?？]\s*(?=\w)", "", text)  # the question, repeated
    first = re.split(r"(?<=[.!?])\s+|\n|。", text, maxsplit=1)[0]
    if seen and DECLINES.search(first.casefold()):
        first = _without_names(first, seen)
    first = first.casefold()
    declines = DECLINES.search(first)
    if declines is None:
        return False
    but = _BUT.search(first, declines.end())
    return but is None or DECLINES.search(first, but.end()) is not None


def _without_names(text: str, seen: str) -> str:
    """Return a text without the names that stand in `seen`.

    Nothing is left of a title that stands there in quotes, or of a sentence, unless it speaks of knowing and is short or
    the first person's.
    """
    if re.search(rf"[«„“\"《「『‹] ?{re.escape(text.strip(_AROUND + '«»《》「」『』„'))} ?[»“”\"》」』›]", seen):
        return ""
    folded, sentence = (" ".join(words.casefold().split()) for words in (seen, bare(text)))
    is_common = KNOWING.search(sentence) or (sentence.count(" ") < 2 and DECLINES.fullmatch(sentence))
    is_own = sentence.count(" ") < 4 or sentence.startswith(("i ", "we "))
    if sentence in folded and not (is_common and is_own):
        return ""

    def rest(name: re.Match[str]) -> str:
        stands = name["thing"].casefold() in folded if name["thing"] else name[0] in seen
        return "" if stands else name[0]

    return _NAME.sub(rest, text)


def _last_mark(text: str) -> int:
    """Return where the text after the last "the answer is" begins; 0 if there is none."""
    ends = (mark.end() for mark in _ANSWER.finditer(text))
    return max((end for end in ends if re.search(r"\w", text[end : end + 400])), default=0)


def answer(reply: str, kind: AnswerType = "short", *, reasoning: bool = False, seen: str = "", shown: int = 0) -> str:
    """Return a reply's answer: what follows its last "the answer is", else its first line.

    Args:
        reply: The reply.
        kind: A long answer is the whole text with its code, without a label; yes_no is one word.
        reasoning: Whether the reply reasons first; without a conclusion, it then has no answer.
        seen: What the model was shown (`text_read`): what stands there word for word is not a refusal.
        shown: How many passages it was shown; 0: not known.
    """
    if kind == "long":
        text = without_marks(_json_answer(whole(reply), alone=True), seen, shown)
        long = _LABEL.sub("", text[_last_mark(text) if reasoning else 0 :]).strip()
        return UNKNOWN if is_unknown(long, seen) else long
    text = without_marks(_json_answer(plain(reply)), seen, anywhere=True)
    at = _last_mark(text)
    conclusion = _conclusion(text, at)
    line = next((line for line in conclusion.splitlines() if re.search(r"\w", line)), "")
    if kind == "yes_no":
        return _verdict(line, conclusion)
    if reasoning and not at and len(split_sentences(text.replace("\n", " "))) > 1 and len(line.split()) > 4:
        return UNKNOWN
    short = bare(split_sentences(line)[0].text if at and line else _without_item_mark(line, seen))
    return UNKNOWN if not short or is_unknown(short if at else text, seen) else short


def _conclusion(text: str, at: int) -> str:
    """Return the text from `at` on: a box's content, or all up to a closing tag, without a table's header."""
    boxes = list(_BOX.finditer(text))
    if boxes and boxes[-1].end() == at:
        return text[at:].partition("}")[0]
    return _TABLE_HEADER.sub("", _AFTER.sub("", text[at:])).strip()


def _without_item_mark(line: str, seen: str) -> str:
    """Return a table row's last cell, or a line without the mark of a heading or of a list's first item."""
    cells = [cell for cell in line.split("|") if cell.strip()]
    if line.lstrip().startswith("|") and cells:
        return cells[-1]
    return line if line.strip() in seen else _ITEM_MARK.sub("", line.strip())


def _verdict(line: str, text: str) -> str:
    """Return Yes or No as a line begins with it, or a text ends with it."""
    word = re.match(rf"\W*{_VERDICT}", line, re.I)
    word = word or re.search(rf"(?:^|[.\n])\W*(?:so,? )?{_VERDICT}[^.\n]*\W*\Z", text, re.I)
    if word is None or (re.match(r"\s*\w", word.string[word.end() :]) and is_unknown(line)):  # No information is given.
        return UNKNOWN
    return "Yes" if word["yes"] or ((word["not"] is None) == (word["true"] is not None) and not word["no"]) else "No"


def _json_answer(text: str, *, alone: bool = False) -> str:
    """Return the answer that the first JSON object in a text gives, or the object that is all of it (`alone`)."""
    body = _FENCE.sub("", text).strip()
    try:
        value, end = json.JSONDecoder().raw_decode(body, 0 if alone else body.index("{"))
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or "answer" not in value or (alone and end < len(body)):
        return text
    return "" if value["answer"] is None else str(value["answer"])


_NEGATED = re.compile(r"\b(?:not|no|cannot|isn't|n't)\W+(?:\w+\W+){0,2}\Z", re.I)


def choice(reply: str, *options: str) -> str | None:
    """Return the option that a reply begins with, or the only one that it names."""
    text = plain(reply)[:400]
    named = sorted(
        (match.start(), option)
        for option in options
        for match in re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", text, re.I)
        if not _NEGATED.search(text[max(match.start() - 60, 0) : match.start()])
    )
    if not named:
        return None
    first = named[0][1]
    leads = re.match(rf"\W*{re.escape(first)}(?:\W*\Z|[.,:;!\n])", text, re.I)
    return first if leads or {option for _, option in named} == {first} else None


_ID_LABEL = r"(?:(?:knowledge|passag|pasaj|sentence|strip|document|dokument|text|source|chunk|result|id)\w{0,3}|\bno\.|\bnr\.|#|№)"
_RUN = re.compile(
    rf"(?<![\w.])\d{{1,4}}(?![a-z\d])"
    rf"(?:(?:[\s,;&/、，()\[\]*#]|\b(?:and|und|et|or|{_ID_LABEL})(?=\W)){{1,8}}\d{{1,4}}(?![a-z\d]))*",
    re.I,
)
"""Numbers in a row."""
_AFTER_LABEL = re.compile(rf"{_ID_LABEL}\W{{0,4}}\Z", re.I)
_RANGE = re.compile(r"(?<!\d)(\d{1,3}) ?(?:[-–—]|to|through|bis) ?(\d{1,3})(?!\d)", re.I)
_CLAUSE = re.compile(r"\n|(?<=[^\W\d])[)*\"']{0,3}[.,;!?。；，](?:\s|\Z)|\b(?:but|while|whereas)\b", re.I)
_REJECTS = re.compile(
    r"\b(?:not|none|neither|nor|cannot|irrelevant|unrelated|unhelpful|useless|incorrect|false)\b|\bno\b(?!\. ?\d)"
    r"|n't\b|[✗✘❌]|不|无关",
    re.I,
)
_EXCEPTS = re.compile(r"\b(?:except|excluding|other than|apart from|all but)\b", re.I)


def ids(reply: str, first: int, last: int) -> list[int] | None:
    """Return the numbers from `first` to `last` that a reply names, in its order.

    They are on its last lines that hold nothing else; or, clause by clause, after a label or at the clause's start or
    end, where a clause that says "not relevant" rejects them. If a reply only rejects numbers, it names the others. If
    it counts from 0 and the prompt from 1, or the reverse, its numbers are converted.

    Returns:
        [] if the reply says that none fits; None if it says nothing of the kind.
    """
    text = _RANGE.sub(lambda ends: _spelled_out(int(ends[1]), int(ends[2]), last), plain(reply))
    named, rejected = _listed_ids(text), list[int]()
    if not named:
        for clause in _CLAUSE.split(re.sub(r":[ *_]*\n+(?=[^\w\n]*\d[\W\d]*(?:\n|\Z))", ": ", text)):
            is_rejected = bool(_REJECTS.search(clause)) != bool(_EXCEPTS.search(clause))
            (rejected if is_rejected else named).extend(_ids_of(clause))
    base = _counts_from([*named, *rejected], first, last)

    def in_range(numbers: list[int]) -> list[int]:
        return [number - base + first for number in dict.fromkeys(numbers) if 0 <= number - base <= last - first]

    if picked := in_range(named):
        return picked
    if not_these := in_range(rejected):
        return [number for number in range(first, last + 1) if number not in not_these]
    if re.search(r"\b(?:none|nothing|no (?:relevant|such)|(?:not|\w+n't) (?:\w+ ){1,3}any)\b|\A\W*no\b", text, re.I):
        return []
    says_all = re.search(r"\b(?:all|everything)\b", text, re.I) and not re.search(r"\bnot\b", text)
    return list(range(first, last + 1)) if says_all else None


def _spelled_out(start: int, end: int, last: int) -> str:
    return ", ".join(map(str, range(start, min(end, last + 1) + 1)))


def _listed_ids(text: str) -> list[int]:
    """Return the numbers of the last lines in a row that hold only numbers, labels and "and"."""
    lines = [line for line in text.splitlines() if line.strip()]
    is_list = [
        bool(re.search(r"\d", line))
        and not re.search(r"[^\W\d]{2}", re.sub(r"(?i)\b(?:and|to|[a-z]+(?= ?\d))\b", "", line))
        for line in lines
    ]
    if True not in is_list:
        return []
    end = len(lines) - is_list[::-1].index(True)
    start = end - next((count for count, fits in enumerate(is_list[:end][::-1]) if not fits), end)
    return [int(number) for line in lines[start:end] for number in re.findall(r"\d{1,4}", line)]


def _ids_of(clause: str) -> list[int]:
    """Return the numbers of a clause that follow a label, else those at its start and its end."""
    runs = list(_RUN.finditer(clause))
    labelled = [run[0] for run in runs if _AFTER_LABEL.search(clause, max(run.start() - 24, 0), run.start())]
    at_an_end = [
        run[0]
        for run in runs
        if not (re.search(r"\w", clause[: run.start()]) and re.search(r"\w", clause[run.end() :]))
    ]
    return [int(number) for run in labelled or at_an_end for number in re.findall(r"\d{1,4}", run)]


def _counts_from(numbers: list[int], first: int, last: int) -> int:
    """Return the number that a reply gives the first item: 0 or 1."""
    if first == 1 and 0 in numbers and last not in numbers:
        return 0
    return 1 if first == 0 and last + 1 in numbers and 0 not in numbers else first


_ITEM = re.compile(
    r"(?:^|(?<=[\s,;]))(?:\([a-z]\)|[a-z]\)|[A-Z]\.(?= )|\d{1,2}[.)](?= )|[-•*] |[Cc]andidate \w[:.])\s*", re.M
)


def listed(reply: str) -> list[str]:
    """Return the items of a list that is marked by (a), 1. or -, else each line that is not a heading."""
    text = plain(reply)
    items = _ITEM.split(text)[1:] or [line for line in text.splitlines() if not line.rstrip("*_ ").endswith(":")]
    return list(filter(None, (item.strip(" ,;\n") for item in items)))


def phrase(reply: str, *leads: str) -> str:
    """Return the first line of a reply that is not a heading, without a lead such as `Query:`."""
    lines = (line.strip() for line in plain(reply).splitlines() if re.search(r"\w", line))
    line = next((line for line in lines if not line.endswith(":")), "")
    return bare(re.sub(rf"\A.{{0,200}}?(?:{'|'.join(leads)})\W*:\s*", "", line, flags=re.I) if leads else line)


def without_unknown(text: str) -> str:
    """Return a text on one line, without the sentences that say "unknown": they name nothing to search for."""
    sentences = [sentence.text for sentence in split_sentences(text) if not is_unknown(sentence.text)]
    return " ".join(" ".join(sentences).split())


def cut(text: str, max_characters: int) -> str:
    """Return a text cut at a word's end to at most `max_characters`."""
    if len(text) <= max_characters:
        return text
    return text[: max_characters + 1].rpartition(" ")[0] or text[:max_characters]


def copied(text: str, examples: str, seen: str) -> bool:
    """Return whether a text is word for word in a prompt's examples, and not in `seen`: what was asked or read."""

    def words(text: str) -> str:
        return " ".join(["", *re.findall(r"[^\W_]+", text.lower()), ""])

    copy = words(text)
    return copy != " " and copy in words(examples) and copy not in words(seen)
