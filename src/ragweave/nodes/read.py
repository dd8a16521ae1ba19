"""The reader of free-text replies, for all steps.

A reply that was constrained to its form is parsed by the form's schema and never gets here. This module
reads other models' replies, replies to the papers' own prompts, and answers, which have no form. It
invents nothing: if a text does not say what was asked for, the answer is `Unknown`, and anything else
is None. Every pattern takes time linear in the text.
"""

import json
import re

from ragweave.state import UNKNOWN, AnswerType
from ragweave.tools.models.messages import without_thoughts
from ragweave.tools.text.words import split_sentences

MAX_CHARACTERS = 20_000
"""Maximum number of characters of a reply that are read: half from its start, half from its end."""

MAX_QUERY_CHARACTERS = 2000
"""Maximum number of characters of a reply that go into a query; the question follows uncut."""


_FENCE = re.compile(r"^[ \t]*```[^\n]*$", re.M)
_AROUND = " \t\r\n*_`\"'“”‘’"
_ANSWER = re.compile(
    r"\b(?:so|thus|hence|therefore),? (?:the |my )?(?:final |correct |short )?answer(?: is|:)\s*:?"
    r"|(?:^|(?<=[.!?,;:] ))[\W_]{0,12}(?:the |my )?(?:final |correct |short )?(?:answer|judgement)"
    r"(?: to (?:the|this|your) question[^\n]{0,300}?)?[*_ ]*(?: is\b|:)\s*:?"
    r"|<answer>|\\boxed\{",
    re.I | re.M,
)
"""What introduces an answer."""
_LABEL = re.compile(r"\A[\W_]{0,12}(?:the |my )?(?:final |short )?answer[*_ ]*:\s*|</?answer>", re.I)
_VERDICT = r"(yes|no|true|false|supports|refutes)\b"
_AFTER = re.compile(r"</answer>.*|\}\s*\Z", re.S | re.I)
_WORDS = re.compile(
    r"n/a|not applicable|unspecified"
    r"|unbekannt|inconnu|desconocido|sconosciuto|desconhecido|onbekend|неизвестно|不明|未知|不知道|わからない|알 수 없음"
    r"|未提及|无法确定"
)
"""Whole replies that decline."""
_SOURCE = r"(?:passages?|contexts?|texts?|documents?|articles?|information)"
_DECLINES = re.compile(
    r"\b(?:i|we)(?:(?:'m|'re| \w+) not| \w+n't| cannot)\b"
    r"|\b(?:cannot|can't|could not|couldn't) (?:be )?(?:determined?|answer(?:ed)?|inferred|found|tell)\b"
    r"|\b(?:not|never|nowhere|\w+n't) (?:\w+ly )?(?:mentioned|stated|specified|given|provided|discussed|named|available"
    r"|found|clear|known|answered|answerable|possible to)\b"
    rf"|\bnot in the {_SOURCE}|\bthere \w+ no (?:such\b|(?:\w+ ){{1,3}}(?:named|titled|called)\b)"
    r"|\b(?:unknown|unclear|unanswerable|unable to|insufficient|not enough|nobody knows|no one knows|impossible to)\b"
    r"|\b(?:no|nothing|none|neither|any) (?:\w+ ){0,4}?(?:information|mention\w*|answers?|details?|indication|record"
    r"|of th\w+|passages?|idea|said|says?|given|provided)\b"
    rf"|\b{_SOURCE}\b[^.;]{{0,80}}?(?:n't|\b(?:not|lacks?|fails? to|never|nothing|silent))\b"
)
"""How a sentence declines to answer."""
_BUT = re.compile(r"\b(?:but|however)\b(?=.*\w)")


def plain(reply: str) -> str:
    """Return a reply, bounded, without thoughts and code fences."""
    half = MAX_CHARACTERS // 2
    text = reply if len(reply) <= MAX_CHARACTERS else f"{reply[:half]}\n{reply[-half:]}"
    return _FENCE.sub("", without_thoughts(text)).replace("’", "'").strip()


def bare(text: str) -> str:
    """Return a text without the marks around it and its full stop; an initial keeps its own."""
    text = text.strip(_AROUND)
    ends = text.endswith((".", "。")) and not re.search(r"\b\w\Z", text[-3:-1])
    return (text[:-1] if ends else text).strip(_AROUND)


def is_unknown(reply: str) -> bool:
    """Return whether a reply declines to answer: by the word, or by its first sentence, up to a "but" that gives an answer."""
    text = plain(reply)
    text = bare(text[_last_mark(text) :]).casefold()
    if not re.search(r"\w", text) or _WORDS.fullmatch(text.strip(" .,:;!?…()[]{}<>-–—。")):
        return True
    first = re.split(r"(?<=[.!?])\s+|\n|。", text, maxsplit=1)[0]
    declines = _DECLINES.search(first)
    if declines is None:
        return False
    but = _BUT.search(first, declines.end())
    return but is None or _DECLINES.search(first, but.end()) is not None


def _last_mark(text: str) -> int:
    """Return where the text after the last "the answer is" begins; 0 if there is none."""
    ends = (mark.end() for mark in _ANSWER.finditer(text))
    return max((end for end in ends if re.search(r"\w", text[end : end + 400])), default=0)


def answer(reply: str, kind: AnswerType = "short", *, reasoning: bool = False) -> str:
    """Return a reply's answer: what follows its last "the answer is", else its first line.

    Args:
        reply: The reply.
        kind: A long answer is the whole text, without a label; yes_no is one word.
        reasoning: Whether the reply reasons first; without a conclusion, it then has no answer.
    """
    text = _json_answer(plain(reply))
    if kind == "long":
        long = _LABEL.sub("", text[_last_mark(text) if reasoning else 0 :]).strip()
        return UNKNOWN if is_unknown(long) else long
    at = _last_mark(text)
    conclusion = _AFTER.sub("", text[at:]).strip()
    line = next((line for line in conclusion.splitlines() if re.search(r"\w", line)), "")
    if kind == "yes_no":
        return _verdict(line, conclusion)
    if reasoning and not at and len(split_sentences(text.replace("\n", " "))) > 1 and len(line.split()) > 4:
        return UNKNOWN
    short = bare(split_sentences(line)[0].text if at and line else line)
    return UNKNOWN if not short or is_unknown(short if at else text) else short


def _verdict(line: str, text: str) -> str:
    """Return Yes or No as a line begins with it, or a text ends with it."""
    word = re.match(rf"\W*{_VERDICT}", line, re.I)
    word = word or re.search(rf"(?:^|[.\n])\W*(?:so,? )?{_VERDICT}[^.\n]*\W*\Z", text, re.I)
    return UNKNOWN if word is None else "Yes" if word[1].lower() in ("yes", "true", "supports") else "No"


def _json_answer(text: str) -> str:
    try:
        value, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return text
    return str(value["answer"]) if isinstance(value, dict) and "answer" in value else text


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


_LABELLED_IDS = re.compile(
    r"(?:knowledges?|passages?|sentences?|strips?|documents?|ids?)\W{0,3}((?:\d{1,4}(?!\d)\W{0,3}(?:and )?)+)", re.I
)


def ids(reply: str, first: int, last: int) -> list[int] | None:
    """Return the numbers from `first` to `last` that a reply names, in its order.

    They are on its last line that holds nothing else, or after a label. If the reply counts from 0 and the prompt
    from 1, or the reverse, its numbers are converted.

    Returns:
        [] if the reply says that none fits; None if it says nothing of the kind.
    """
    text = plain(reply)
    lines = [line for line in text.splitlines() if re.search(r"\d", line)]
    lists = [
        line for line in lines if not re.search(r"[^\W\d]{2}", re.sub(r"(?i)\b(?:and|to|[a-z]+(?= ?\d))\b", "", line))
    ]
    named = " ".join(lists[-1:] or _LABELLED_IDS.findall(text))
    named = re.sub(
        r"(\d{1,3}) ?[-–] ?(\d{1,3})",
        lambda ends: " ".join(map(str, range(int(ends[1]), min(int(ends[2]), last + 1) + 1))),
        named,
    )
    numbers = list(dict.fromkeys(map(int, re.findall(r"\d{1,4}", named))))
    base = first
    if first == 1 and 0 in numbers and last not in numbers:
        base = 0
    if first == 0 and last + 1 in numbers and 0 not in numbers:
        base = 1
    in_range = [number - base + first for number in numbers if 0 <= number - base <= last - first]
    if in_range:
        return in_range
    if re.search(r"\b(?:none|nothing|no (?:relevant|such))\b|\A\W*no\b", text, re.I):
        return []
    says_all = re.search(r"\b(?:all|everything)\b", text, re.I) and not re.search(r"\bnot\b", text)
    return list(range(first, last + 1)) if says_all else None


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
