"""The reader of free-text replies, for all steps.

A reply that was constrained to its form is parsed by the form's schema and never gets here. This module
reads other models' replies, replies to the papers' own prompts, and answers, which have no form. It
invents nothing: if a text does not say what was asked for, an answer is `Unknown` and anything else
None. Every pattern takes time linear in the text.
"""

import json
import re

from ragweave.state import UNKNOWN, AnswerType
from ragweave.tools.models.messages import without_thoughts
from ragweave.tools.text.words import split_sentences

MOST = 20_000
"""Characters of a reply that are read: half from its start, half from its end."""

QUERY_LENGTH = 2000
"""The most characters of a reply that go into a query; the whole question follows."""


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
_BEHIND = re.compile(r"</answer>.*|\}\s*\Z", re.S | re.I)
_WORDS = re.compile(
    r"unknown|unkown|n/a|not applicable|unanswerable|undetermined|unspecified|unclear|no answer|no idea|idk"
    r"|not mentioned|not stated|not specified|not known|none mentioned|none|not found in context|don't know"
    r"|insufficient information|i don't know|i do not know|unbekannt|inconnu|desconocido|sconosciuto"
    r"|desconhecido|onbekend|неизвестно|不明|未知|不知道|わからない|알 수 없음|未提及|无法确定"
)
_SOURCE = r"(?:passages?|contexts?|texts?|documents?|information|input|articles?|sources?|details?)"
_DECLINES = re.compile(
    r"\b(?:i|we) (?:do not|don't|did not|cannot|can't|could not|couldn't|am not|am unable|was unable|were unable|have no"
    r"|need more|would need)\b|\b(?:i'm|we're|i am|we are) (?:not (?:sure|certain|aware|familiar|able)|unsure|unable|sorry)\b"
    r"|\b(?:cannot|can't|can not|could not|couldn't) (?:\w+ly )?(?:be (?:\w+ly )?(?:determined|answered|inferred|known|found"
    r"|identified)|answer|determine|find|say|tell|provide)"
    r"|\b(?:not|never|nowhere|isn't|aren't|wasn't|weren't) (?:\w+ly |even |made |been )?(?:mentioned|stated|specified|given"
    r"|provided|addressed|discussed|named|disclosed|indicated|available|found|included|listed|clear|known|explained"
    r"|determined|told|answered|answerable|said|identified|possible to)\b"
    rf"|\bnot (?:in|from) (?:the|any|these) {_SOURCE}|\bi apologi[sz]e\b"
    r"|\bthere (?:is|was|are|were) no (?:such\b|(?:\w+ ){1,3}(?:named|titled|called|of that name|by that name)\b|records?\b)"
    r"|\b(?:unknown|unclear|unspecified|unanswerable|unable to|insufficient|not enough|not sufficient|not sure|nobody knows"
    r"|no one knows|impossible to)\b|\b(?:no|nothing|none|neither|any) (?:\w+ ){0,4}?(?:information|mention\w*|answers?"
    r"|context|details?|data|evidence|indication|reference|record|of th\w+|passages?|documents?|idea|clue|knowledge|said|says?"
    rf"|states?|tells?|gives?|given|provided|stated)\b|\b{_SOURCE}\b[^.;]{{0,80}}?\b(?:do|does|did|is|are) ?(?:n't|not)\b"
    rf"|\b{_SOURCE}\b[^.;]{{0,60}}?\b(?:lacks?|fails? to|omits?|never|nothing|silent)\b"
)
"""How a sentence declines to answer."""
_LEADS = re.compile(
    r"(?:based|according|given|from|in|the|while|although|though|as|unfortunately|there|it|this|none|no|i|we)\b"
)
"""How a sentence may begin that declines only later on."""
_TURNS = re.compile(r"\b(?:but|however|although|though|yet)\b,? *", re.S)


def plain(reply: str) -> str:
    """Return a reply, bounded, without thoughts and code fences."""
    half = MOST // 2
    text = reply if len(reply) <= MOST else f"{reply[:half]}\n{reply[-half:]}"
    return _FENCE.sub("", without_thoughts(text)).replace("’", "'").strip()


def bare(text: str) -> str:
    """Return a text without the marks around it and its full stop; an initial keeps its own."""
    text = text.strip(_AROUND)
    ends = text.endswith((".", "。")) and not re.search(r"\b\w\Z", text[-3:-1])
    return (text[:-1] if ends else text).strip(_AROUND)


def is_unknown(reply: str) -> bool:
    """Return whether a reply declines to answer: by the word, or by its first sentence."""
    text = plain(reply)
    text = re.sub(r"</?\w[^<>]{0,30}>|[*_`#>|]", " ", text[_last_mark(text) :]).casefold().strip()
    if not re.search(r"\w", text) or _WORDS.fullmatch(text.strip(" \t\r\n\"'“”‘’.,:;!?…()[]{}<>-–—。")):
        return True
    first = re.split(r"(?<=[.!?])\s+|\n|。", text.strip(), maxsplit=1)[0]
    if first.split()[0].strip(".,:;(—-") in ("unknown", "n/a"):
        return True
    found = _DECLINES.search(first[:400])
    if found is None or (found.start() > 60 and not _LEADS.match(first)):
        return False
    turn = _TURNS.search(first, found.end())
    rest = first[turn.end() :] if turn else ""
    return len(rest.split()) < 3 or _DECLINES.search(rest) is not None


def _last_mark(text: str) -> int:
    """Return where the text after the last "the answer is" begins; 0 if there is none."""
    ends = (mark.end() for mark in _ANSWER.finditer(text))
    return max((end for end in ends if re.search(r"\w", text[end : end + 400])), default=0)


def answer(reply: str, kind: AnswerType = "short", *, reasoning: bool = False) -> str:
    """Return a reply's answer: what follows its last "the answer is", else its first line.

    Args:
        reply: The reply.
        kind: A long answer is all that is said, without a label; yes_no is one word.
        reasoning: Whether it reasons first: without a conclusion it then has no answer.
    """
    text = _json_answer(plain(reply))
    if kind == "long":
        said = _LABEL.sub("", text[_last_mark(text) if reasoning else 0 :]).strip()
        return UNKNOWN if is_unknown(said) else said
    at = _last_mark(text)
    said = _BEHIND.sub("", text[at:]).strip()
    line = next((one for one in said.splitlines() if re.search(r"\w", one)), "")
    if kind == "yes_no":
        return _verdict(line, said)
    if reasoning and not at and len(split_sentences(text.replace("\n", " "))) > 1 and len(line.split()) > 4:
        return UNKNOWN
    short = bare(split_sentences(line)[0].text if at and line else line)
    return UNKNOWN if not short or is_unknown(short if at else text) else short


def _verdict(line: str, said: str) -> str:
    word = re.match(rf"\W*{_VERDICT}", line, re.I)
    word = word or re.search(rf"(?:^|[.\n])\W*(?:so,? )?{_VERDICT}[^.\n]*\W*\Z", said, re.I)
    return UNKNOWN if word is None else "Yes" if word[1].lower() in ("yes", "true", "supports") else "No"


def _json_answer(text: str) -> str:
    try:
        value, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return text
    return str(value["answer"]) if isinstance(value, dict) and "answer" in value else text


def choice(reply: str, *options: str) -> str | None:
    """Return the option that a reply begins with, or the only one that it names."""
    text = plain(reply)[:400]
    found = [
        (one.start(), option)
        for option in options
        for one in re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", text, re.I)
        if not re.search(
            r"\b(?:not|no|cannot|isn't|n't)\W+(?:\w+\W+){0,2}\Z", text[max(one.start() - 60, 0) : one.start()], re.I
        )
    ]
    if not found:
        return None
    first = min(found)[1]
    leads = re.match(rf"\W*{re.escape(first)}(?:\W*\Z|[.,:;!\n])", text, re.I)
    return first if leads or len({option for _, option in found}) == 1 else None


_LABELLED_IDS = re.compile(
    r"(?:knowledges?|passages?|sentences?|strips?|documents?|ids?)\W{0,3}((?:\d{1,4}(?!\d)\W{0,3}(?:and )?)+)", re.I
)


def ids(reply: str, first: int, last: int) -> list[int] | None:
    """Return the numbers from `first` to `last` that a reply names, in its order; [] for none; None: neither.

    They are on its last line that holds nothing else, or after a label. A reply that counts from 0 or
    1 where the prompt did not is read the way it counts.
    """
    text = plain(reply)
    lines = [one for one in text.splitlines() if re.search(r"\d", one)]
    listed = [
        one for one in lines if not re.search(r"[^\W\d]{2}", re.sub(r"(?i)\b(?:and|to|[a-z]+(?= ?\d))\b", "", one))
    ]
    named = " ".join(listed[-1:] or _LABELLED_IDS.findall(text))
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
    found = [one - base + first for one in numbers if 0 <= one - base <= last - first]
    if found:
        return found
    if re.search(r"\b(?:none|nothing|no (?:relevant|such))\b|\A\W*no\b", text, re.I):
        return []
    says_all = re.search(r"\b(?:all|everything)\b", text, re.I) and not re.search(r"\bnot\b", text)
    return list(range(first, last + 1)) if says_all else None


_ITEM = re.compile(
    r"(?:^|(?<=[\s,;]))(?:\([a-z]\)|[a-z]\)|[A-Z]\.(?= )|\d{1,2}[.)](?= )|[-•*] |[Cc]andidate \w[:.])\s*", re.M
)


def listed(reply: str) -> list[str]:
    """Return what stands behind each mark of a list, (a), 1. or -, else each line that is no heading."""
    text = plain(reply)
    parts = _ITEM.split(text)[1:] or [one for one in text.splitlines() if not one.rstrip("*_ ").endswith(":")]
    return [one for part in parts if (one := part.strip(" ,;\n"))]


def phrase(reply: str, *leads: str) -> str:
    """Return the first line of a reply that is no heading, without a lead such as `Query:`."""
    lines = (one.strip() for one in plain(reply).splitlines() if re.search(r"\w", one))
    line = next((one for one in lines if not one.endswith(":")), "")
    return bare(re.sub(rf"\A.{{0,200}}?(?:{'|'.join(leads)})\W*:\s*", "", line, flags=re.I) if leads else line)


def without_unknown(text: str) -> str:
    """Return a text on one line, without the sentences that say "unknown": they name nothing to search for."""
    said = [one.text for one in split_sentences(text) if not is_unknown(one.text)]
    return " ".join(" ".join(said).split())


def cut(text: str, longest: int) -> str:
    """Return a text cut at a word's end to at most `longest` characters."""
    return text if len(text) <= longest else text[: longest + 1].rpartition(" ")[0] or text[:longest]


def copied(said: str, examples: str, seen: str) -> bool:
    """Return whether a text is word for word in a prompt's examples, and in nothing asked or read."""
    said, examples, seen = (" ".join(["", *re.findall(r"[^\W_]+", one.lower()), ""]) for one in (said, examples, seen))
    return len(said) > 2 and said in examples and said not in seen
