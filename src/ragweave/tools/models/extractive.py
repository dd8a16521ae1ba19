"""The embedded default model: a LangChain chat model that quotes the passages it is given.

It is not a language model. A linear ranker picks the sentence of each passage that likely answers the
question, and a logistic model says how far it can be trusted. The best sentence is the answer, whole; where
none reaches the threshold, the answer is `Unknown`.

Both go by words. Where the `offline` extra is installed, the packaged MiniLM also reads the question together
with each of the two nearest passages, as BERT reads SQuAD 2.0 (Devlin et al. 2019, section 4.3): the answer may
begin and end at any token of a sentence, or at `[CLS]`, which means no answer.
`benchmarks/extractive_train.py` trains the adapter for that, and `benchmarks/extractive_nq.py --fit` fits the
weights; without `--fit` it measures how often the model is right, on questions used for neither.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field
from typing_extensions import override

from ragweave.errors import MissingExtraError, UsageError
from ragweave.state import UNKNOWN
from ragweave.tools.embeddings.minilm import CLS, SEP, onnx_available, token_states, tokens
from ragweave.tools.models.messages import Task, TaskName, TaskPassage, task_of
from ragweave.tools.text.words import STOP_WORDS, rows_of, split_sentences, terms, words

NOTICE = (
    "extractive quotes a sentence of your passages; no language model wrote this. "
    "Name one with --model, such as openai:gpt-4o-mini."
)

Features = dict[str, float]


ADAPTER = Path(__file__).with_suffix(".npz")
"""What makes MiniLM a reader: low-rank changes to its weights, and the head that scores begin and end of an answer."""
_FITTED = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
RANK: Features = _FITTED["rank"]
"""Fitted weights of features: which sentence of a passage answers best."""
SUPPORT: dict[str, Features] = _FITTED["support"]
"""Whether the best sentence answers, by words (`lexical`) or also by reading (`minilm`): log-odds, constant `one`."""


class Evidence(NamedTuple):
    """The sentence of a passage that answers a question best."""

    text: str
    passage: int
    """The position of its passage, from 0."""
    support: float
    """The probability that it answers, in [0, 1]."""


def best_evidence(question: str, passages: Sequence[TaskPassage], *, encoder: bool) -> list[Evidence]:
    """Return the best sentence of each passage, the best supported first.

    Args:
        question: The question.
        passages: Passages without a sentence that can be the answer give no evidence; with `encoder`, only tables and the
            two nearest do.
        encoder: Whether MiniLM reads too. It was trained on English prose: a question mostly in another script, or
            without an English function word, is compared by words alone, and so is a table.
    """
    is_latin = 2 * len(re.findall("[A-Za-z]", question)) > sum(letter.isalpha() for letter in question)
    encoder, evidence = encoder and is_latin and not STOP_WORDS.isdisjoint(words(question)), []
    must_hold = [answer for asked, answer in _MUST_HOLD if re.search(asked, question, re.IGNORECASE)]
    for place, rows in features_of(asked_of(question), passages, encoder=encoder):
        able = [row for row in rows if all(re.search(answer, row[0], re.IGNORECASE) for answer in must_hold)]
        if not able:
            continue
        text, best = max(able, key=lambda row: weighted(RANK, row[1]))
        weights = SUPPORT["minilm" if "read" in best else "lexical"]
        evidence.append(Evidence(text, place, 1 / (1 + math.exp(-weighted(weights, best)))))
    return sorted(evidence, key=lambda sentence: -sentence.support)


def weighted(weights: Mapping[str, float], features: Features) -> float:
    """Return the weighted sum of features."""
    return math.fsum(weight * features.get(name, 0.0) for name, weight in weights.items())


_NEAREST = 2
"""Number of passages that MiniLM reads."""
_LONGEST_READ = 48
"""Maximum number of sentences of a passage that it reads: those that rank best by words."""
_SKIMMED = 64
"""Tokens of a passage that tell how near it is."""

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_NUMBER_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|half"
_KINDS = {
    "number": r"\bhow (?:many|much|long|old|far|tall|high|big|large|often|deep|fast|heavy|wide)\b"
    r"|\b(?:number|population|percentage|amount) of\b",
    "date": r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|decade|time)\b",
    "who": r"\bwho(?:m|se)?\b",
    "where": r"\bwhere\b|\b(?:what|which) (?:city|country|state|place|county|river|town)\b",
}
"""Kinds of questions, by what they ask for; the first that matches."""
_MUST_HOLD = [
    (r"\b(?:what|which) (?:year|date|century|decade)\b|\bdate of\b", rf"\d|\b(?:{_MONTH})\b|\bcentury\b"),
    (
        r"\bhow (?:many|old)\b|\b(?:phone|telephone|account|serial|invoice|part) number\b",
        rf"\d|\b(?:{_NUMBER_WORDS}|\w+teen|\w+ty|eleven|no|none|zero|single|both|pair|several|few)\b",
    ),
    (r"\be-?mail address\b", "@"),
]
"""Questions that only some texts can answer, and what such a text has: a date, a number, an address."""
_DATE = re.compile(rf"\b(?:1\d{{3}}|20\d\d|{_MONTH})\b")
_NUMBER = re.compile(rf"\b(?!(?:1\d|20)\d\d\b)(?:\d|(?:{_NUMBER_WORDS}|first|second|third)\b)", re.I)
_NAME = re.compile(r"\b[A-Z][\w’'.-]+(?:\s+(?:(?:of|de|the|van|von|la)\s+)?[A-Z][\w’'.-]*)*")
_NEGATION = re.compile(r"\b(?:not|no|never|none|without|neither|nor|cannot)\b|n['’]t\b", re.I)
_WORD = re.compile(r"[\w’'-]+")
_END = re.compile(r"[.!?…:;。！？]\W*$")


class Asked(NamedTuple):
    """A question as the models read it."""

    text: str
    kind: str
    """A key of `_KINDS`, or ""."""
    terms: frozenset[str]
    exact: frozenset[str]
    """Terms of its names and numbers, which a passage that answers it should hold."""


@lru_cache(maxsize=256)
def asked_of(question: str) -> Asked:
    """Read a question."""
    lowered = question.lower()
    kind = next((kind for kind, pattern in _KINDS.items() if re.search(pattern, lowered)), "")
    content = frozenset(terms(question))
    exact = terms(" ".join(re.findall(r"(?<!^)\b[A-Z][\w'-]+|\d+", question)))
    return Asked(question, kind, content - _HOW or content, frozenset(exact))


_HOW = frozenset(terms("name called many much kind type mean"))
"""Words of questions that say how to answer, not what about."""


def features_of(
    asked: Asked, passages: Sequence[TaskPassage], *, encoder: bool
) -> Iterator[tuple[int, list[tuple[str, Features]]]]:
    """Yield the place of each passage that has a sentence to quote, its sentences and their features.

    With `encoder`, only tables and the passages that MiniLM reads.
    """
    texts = {at: sentences for at, passage in enumerate(passages) if (sentences := sentences_of(asked, passage))}
    rows = {at: list(zip(texts[at], _lexical(asked, passages[at]["title"], texts[at]), strict=True)) for at in texts}
    prose = [at for at in rows if encoder and not _is_table(passages[at]["text"])]
    yield from ((at, rows[at]) for at in rows if at not in prose)
    cosines = dict(zip(prose, _cosines(asked.text, [passages[at] for at in prose]), strict=True)) if prose else {}

    def nearness(at: int) -> float:
        return cosines[at] + max(features["cover"] for _, features in rows[at])

    for at in nlargest(_NEAREST, prose, key=nearness):
        best = nlargest(_LONGEST_READ, range(len(rows[at])), key=lambda place: weighted(RANK, rows[at][place][1]))
        read = [rows[at][place] for place in sorted(best)]
        odds = answer_odds(asked.text, passages[at]["title"], [text for text, _ in read])
        for (_, features), log_odds in zip(read, odds, strict=True):
            features |= {"read": log_odds, "cosine": cosines[at]}
        yield at, read


def _cosines(question: str, passages: Sequence[TaskPassage]) -> list[float]:
    """Return the cosine of each passage's first tokens with the question."""
    from ragweave.tools.embeddings.named import unit

    texts = [question, *(f"{passage['title']} {passage['text']}" for passage in passages)]
    skimmed = [([CLS, *tokens(text, _SKIMMED), SEP], None) for text in texts]
    rows = unit([states.mean(axis=0) for states in token_states(skimmed)])
    cosines: list[float] = (rows[1:] @ rows[0]).tolist()
    return cosines


def sentences_of(asked: Asked, passage: TaskPassage) -> list[str]:
    """Return the sentences that may be quoted: no questions, headings or numbers alone.

    A row stands after its table's header, and a sentence after the question right before it, as in a FAQ.
    """
    known, rows = asked.terms.union(terms(passage["title"])), rows_of(passage["text"])
    headers = {header.start for header in rows.values() if header}
    texts, lead = [], ""
    for part in split_sentences(passage["text"]):
        is_heading = part.start in headers or (part.start not in rows and _is_heading(part.text, known))
        is_question = part.text.endswith(("?", "？"))
        if not is_heading and not is_question and re.search(r"[^\W\d_]", part.text):
            header = rows.get(part.start)
            texts.append(" ".join(f"{header.text if header else lead} {part.text}".split()))
        lead = part.text.lstrip("# ") if is_question else ""
    return texts


def _is_table(text: str) -> bool:
    """Return whether most sentences of a text are rows under a header."""
    return 2 * sum(header is not None for header in rows_of(text).values()) > len(split_sentences(text))


def _is_heading(text: str, known: frozenset[str]) -> bool:
    """Return whether a text is a heading: one line without an end that is marked, in title case, or of known terms."""
    if "\n" in text or _END.search(text):
        return False
    content = [word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]
    return text.startswith("#") or known.issuperset(terms(text)) or all(word[0].isupper() for word in content)


def _lexical(asked: Asked, title: str, texts: Sequence[str]) -> Iterator[Features]:
    bags = [frozenset(terms(text)) for text in texts]
    titled, everywhere = frozenset(terms(title)), frozenset[str]().union(*bags)
    within = Counter(term for bag in bags for term in bag & asked.terms)
    rarity = {term: math.log(1 + (len(bags) + 1) / (within[term] + 0.5)) for term in sorted(asked.terms)}
    total = math.fsum(rarity.values()) or 1.0

    def share(level: Mapping[str, float]) -> float:
        return math.fsum(rarity[term] * amount for term, amount in level.items()) / total

    def covered(bag: frozenset[str]) -> float:
        return share(dict.fromkeys(asked.terms & bag, 1.0))

    known = everywhere | titled
    missing = len(asked.exact - known) / (len(asked.exact) or 1)
    for place, (text, bag) in enumerate(zip(texts, bags, strict=True)):
        weight = {term: 1.0 if term in bag else 0.8 if term in titled else 0.35 for term in asked.terms & known}
        yield {
            "one": 1.0,
            "missing": missing,
            **_typed(asked, titled, text),
            "cover": share(weight),
            "full": float(bool(asked.terms) and asked.terms <= bag),
            "cover_with_previous": covered(bag | (bags[place - 1] if place else titled)),
            "early": 1 / (1 + place),
            "title": len(titled & bag) / (len(titled) or 1),
            "length": math.log(1 + len(text.split())),
            "negation": float(bool(_NEGATION.search(asked.text)) != bool(_NEGATION.search(text))),
        }


def _typed(asked: Asked, titled: frozenset[str], text: str) -> Features:
    """Return whether a sentence has what the kind of question asks for, and how near to the question's words."""
    wanted = [date.start() for date in _DATE.finditer(text)] if asked.kind == "date" else []
    if asked.kind == "number":
        wanted = [number.start() for number in _NUMBER.finditer(text)]
    by = 0
    if asked.kind not in ("date", "number"):
        for name in _NAME.finditer(text):
            is_known = (asked.terms | titled).issuperset(terms(name.group()))
            if is_known or (name.start() == 0 and " " not in name.group()):
                continue
            wanted.append(name.start())
            by += text[: name.start()].endswith(" by ")
    near = 0.0
    if wanted and asked.kind:
        new = asked.terms - titled
        places = [(word.start(), frozenset(terms(word.group()))) for word in _WORD.finditer(text)]
        hits = [at for at, own in places if own & new] or [at for at, own in places if own & asked.terms]
        near = max((1 / (1 + abs(hit - at) / 20) for hit in hits for at in wanted), default=0.0)
    return {
        f"has:{asked.kind}": min(len(wanted), 2) / 2,
        f"near:{asked.kind}": near,
        "by": float(bool(by) and asked.kind == "who"),
    }


_LONGEST, _LONGEST_QUESTION, _LONGEST_TITLE = 256, 48, 16
"""Maximum number of tokens that MiniLM reads at once, and of those for the question and the title."""


class Window(NamedTuple):
    """Sentences of a passage as MiniLM reads them, after the question."""

    ids: list[int]
    passage: int
    """Where the passage begins: with its title."""
    sentences: list[tuple[int, int]]
    """Where each sentence begins and ends."""


def windows(question: str, title: str, sentences: Sequence[str]) -> Iterator[Window]:
    """Yield the question with as many sentences as fit at a time; a sentence longer than that is cut."""
    asked = [CLS, *tokens(question, _LONGEST_QUESTION), SEP]
    lead = asked + tokens(title.replace('"', ""), _LONGEST_TITLE) + tokens(".", 1)
    window = Window([*lead], len(asked), [])
    for sentence in sentences:
        more = tokens(sentence, _LONGEST - len(lead) - 1)
        if len(window.ids) + len(more) >= _LONGEST:
            window.ids.append(SEP)
            yield window
            window = Window([*lead], len(asked), [])
        window.sentences.append((len(window.ids), len(window.ids) + len(more)))
        window.ids.extend(more)
    if window.sentences:
        window.ids.append(SEP)
        yield window


def answer_odds(question: str, title: str, sentences: Sequence[str]) -> list[float]:
    """Return for each sentence of a passage the log-odds that the answer is in it, against there being none.

    They are those of the token where the answer begins plus those of the token where it ends.
    """
    import numpy as np

    with np.load(ADAPTER) as stored:
        head = stored["head"].astype(np.float32)
    inputs = list(windows(question, title, sentences))
    odds = []
    for window, states in zip(inputs, token_states([window[:2] for window in inputs], ADAPTER), strict=True):
        scores = states @ head
        for start, end in window.sentences:
            odds.append(float((np.logaddexp.reduce(scores[start:end]) - scores[0]).sum()))
    return odds


class ExtractiveChat(BaseChatModel):
    r"""Answers with the one sentence of the passages that answers best, or with Unknown.

    It works from a prompt's structured inputs (`ragweave.tools.models.messages`). In a prompt without
    them, or for a task that it does not know, the last line with a question mark is the question, and
    `<passage …>` blocks, or else the other paragraphs, are the passages. It cannot say Yes or No,
    judge, or write from memory. The same messages always get the same reply. Tokens in
    `usage_metadata` are words. `stop` is honoured; settings of language models have no effect.

    Examples:
        >>> text = "The Eiffel Tower was finished in 1889. It is made of iron."
        >>> model = ExtractiveChat(similarity="lexical")
        >>> model.invoke(f"{text}\n\nWhen was the Eiffel Tower finished?").content
        'The Eiffel Tower was finished in 1889.'
    """

    notice: ClassVar[str] = NOTICE
    """What a reader of an answer must know; every reply has it in `response_metadata`."""
    similarity: Literal["auto", "lexical", "minilm"] = "auto"
    """`lexical` compares words, `minilm` also reads, `auto` is `minilm` where it is installed."""
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    """The support that an answer needs."""
    profile: ModelProfile | None = Field(
        default_factory=lambda: ModelProfile(structured_output=False, tool_calling=False), exclude=True
    )

    @property
    def model_name(self) -> str:
        """The name that traces show."""
        return "extractive"

    def _reads(self) -> bool:
        if self.similarity == "minilm" and not onnx_available():
            raise MissingExtraError("The MiniLM similarity of the extractive model", "offline")
        return self.similarity != "lexical" and onnx_available()

    @override
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        """Refuse: the model calls no tools.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "extractive is not a language model and calls no tools: name a model that does, such as openai:gpt-4o-mini"
        )

    @property
    def _llm_type(self) -> str:
        return "extractive"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"similarity": self.similarity, "threshold": self.threshold}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,  # noqa: ARG002 - settings of language models, without effect here
    ) -> ChatResult:
        task = task_of(messages)
        text = self._reply(task if task and task["task"] in _REPLIES else _parsed(messages, task))
        text = text[: min((at for word in stop or () if word and (at := text.find(word)) >= 0), default=None)]
        read, written = sum(len(str(message.text).split()) for message in messages), len(text.split())
        message = AIMessage(
            content=text,
            usage_metadata=UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written),
            response_metadata={"model_name": "extractive", "finish_reason": "stop", "notice": NOTICE},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _reply(self, task: Task) -> str:
        evidence = best_evidence(task["question"], task.get("passages", []), encoder=self._reads())
        return _REPLIES[task["task"]](task, [sentence for sentence in evidence if sentence.support >= self.threshold])


def _answer(task: Task, evidence: Sequence[Evidence]) -> str:
    return evidence[0].text if evidence and task.get("answer_type") != "yes_no" else UNKNOWN


def _claims(task: Task, _evidence: Sequence[Evidence]) -> str:
    claims = [" ".join(sentence.text.split()) for sentence in split_sentences(task.get("draft", ""))]
    return "\n".join(f"<Claim> {claim} <Query> {claim}" for claim in claims) or "<Claims> </Claims>"


_REPLIES: Mapping[TaskName, Callable[[Task, Sequence[Evidence]], str]] = {
    "answer": _answer,
    "recall": _answer,
    "reason": lambda task, evidence: f"So the answer is: {_answer(task, evidence)}",
    "step": lambda task, evidence: f"So the final answer is: {_answer(task, evidence)}",
    "extract": lambda task, _: task.get("draft", "").strip() or UNKNOWN,
    "rewrite": _claims,
    "topic": lambda task, _: (
        " ".join(word for word in _WORD.findall(task["question"]) if word.lower() not in STOP_WORDS) or task["question"]
    ),
    "restate": lambda task, _: restated(task["question"], task.get("earlier", [])),
    "filter": lambda task, evidence: (
        ", ".join(map(str, sorted(sentence.passage + task.get("first", 0) for sentence in evidence))) or "none"
    ),
    "grade": lambda _, evidence: "Correct" if evidence else "Incorrect",
    "sufficient": lambda _, evidence: "Yes" if evidence else "No",
    "judge": lambda *_: "<Known(False)>",
    "need": lambda *_: "Yes",
    "route": lambda *_: "one",
}
"""The reply to each task, from the evidence that supports its question, the best first."""


_BLOCK = re.compile(r"<passage\b[^<>]*>([^<]*(?:<(?!/?passage\b)[^<]*)*)</passage>")
_TITLE = re.compile(r'<passage\b[^<>]*\btitle="([^"<>]*)"')


def _parsed(messages: Sequence[BaseMessage], task: Task | None) -> Task:
    """Return the question and the passages of a plain prompt; those of a task take precedence."""
    asked = next((str(message.text) for message in reversed(messages) if message.type == "human"), "")
    text = "\n\n".join([*(str(message.text) for message in messages if message.type == "system"), asked])
    lines = [line for line in asked.splitlines() if re.search(r"\w", line)] or [""]
    line = next((line for line in reversed(lines) if "?" in line), lines[-1])
    blocks = [(_TITLE.match(block.group()), block[1]) for block in _BLOCK.finditer(text)]
    passages = [TaskPassage(id="", title=title[1] if title else "", text=text) for title, text in blocks]
    if not passages:
        paragraphs = (part for part in re.split(r"\n\s*\n", text) if line not in part)
        passages = [TaskPassage(id="", title="", text=part) for part in paragraphs]
    task = task or Task(task="answer", question="")
    question = task.get("question") or re.sub(r"\A\s*\w+:\s*", "", line)
    return {**task, "task": "answer", "question": question, "passages": task.get("passages") or passages}


_PRONOUN = re.compile(r"\b(?:(its|their|his)|it|they|them|he|she|him|her)\b(?!['’])", re.I)


def restated(question: str, earlier: Sequence[str]) -> str:
    """Return a follow-up with the name of an earlier question in the place of its pronoun.

    Args:
        question: The follow-up; without a pronoun, or if no earlier question has a name, it stays as it is.
        earlier: The earlier questions, the last one first.
    """
    pronoun = _PRONOUN.search(question)
    names = (name.group() for text in earlier for name in _NAME.finditer(text) if name.start())
    name = next(names, "")
    if pronoun is None or not name:
        return question
    return question[: pronoun.start()] + name + ("'s" if pronoun[1] else "") + question[pronoun.end() :]
