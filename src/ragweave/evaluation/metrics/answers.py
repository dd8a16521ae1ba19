"""Metrics of answers and their costs. If no answer is given, this is right only if the question has none.

Sources: SQuAD (Rajpurkar et al. 2018); ASQA (Stelmakh et al. 2022); SlimPLM (Tan et al. 2024, section 4.2, equation 2
and released code: an answer may be a part of a word); FILCO (Wang et al. 2023, section 3.1 and released code, which compares with punctuation, and
counts letters instead of words); Liu et al. 2024 (%Unk, %NM); ROUGE (Lin 2004) by the package rouge-score, with words
of our own in texts with letters outside ASCII. With several references, ROUGE-1 and ROUGE-2 use the one with the best
ROUGE-L (SlimPLM, section 4.2).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unicodedata import normalize

from ragweave.datasets import Question
from ragweave.datasets.formats import verdict
from ragweave.errors import need
from ragweave.evaluation.metrics.metric import Compute, Metric, Score, State, given
from ragweave.evaluation.metrics.text import all_words, parted_words, squad_normalize, stands_in, words_of
from ragweave.roles import ROLES
from ragweave.tools.filters import filco_normalize
from ragweave.tools.text.words import overlap

Rule = Callable[[str, Iterable[str]], float]


def _exact(rule: Callable[[str], object]) -> Rule:
    def matches(answer: str, golds: Iterable[str]) -> float:
        text = rule(answer)
        return float(any(text == rule(gold) for gold in golds))

    return matches


def _shared(rule: Callable[[str], Iterable[str]]) -> Rule:
    def shares(answer: str, golds: Iterable[str]) -> float:
        words = rule(answer)
        return max((overlap(words, rule(gold)) for gold in golds), default=0.0)

    return shares


exact_match = _exact(words_of)
"""1.0 if the answer equals a right answer, except for typography."""
f1 = _shared(words_of)
"""F1 of the words shared with the best right answer, 0 to 1."""
squad_em = _exact(squad_normalize)
"""Exact match by SQuAD's script."""
squad_f1 = _shared(lambda text: squad_normalize(text).split())
"""F1 by SQuAD's script."""
filco_em = _exact(filco_normalize)
"""Exact match by FILCO's released code, which compares punctuation."""
filco_f1 = _shared(filco_normalize)
"""F1 by FILCO's released code, which compares letters."""


def contains(text: str, names: Iterable[str]) -> float:
    """Return 1.0 if a text contains a name as complete words."""
    return float(any(stands_in(rule(name), rule(text)) for name in names for rule in (words_of, all_words)))


def name_share(text: str, names: Sequence[str]) -> float:
    """Return the share of names that are a part of a text, be it of a word: the rule of ASQA's and SlimPLM's scripts."""
    plain = squad_normalize(text)
    return sum(bool(name) and name in plain for name in map(squad_normalize, names)) / len(names)


def accuracy(answer: str, golds: Iterable[str]) -> float:
    """Return 1.0 if the answer's first word is that of a right answer; SUPPORTS counts as Yes, REFUTES as No."""
    word = _first_word(answer)
    return float(bool(word) and any(word == _first_word(gold) for gold in golds))


def _first_word(text: str) -> str:
    word = " ".join(words_of(text)[:1])
    return verdict(word) or word


def _of(rule: Rule, *kinds: str) -> Compute:
    """Return a rule as a metric for some kinds of question."""

    def compute(question: Question, state: State) -> Score:
        if question.kind not in kinds or not question.is_known or (question.kind == "parts" and not question.answers):
            return None
        answer = given(state)
        if not answer or not question.answers:
            return float(not answer and not question.answers)
        return rule(answer, question.answers)

    return compute


def _contains(question: Question, state: State) -> Score:
    applies = question.kind == "short" and question.answers
    return contains(given(state), question.answers) if applies else None


def _coverage(question: Question, state: State) -> Score:
    if question.kind != "parts":
        return None
    shares = [name_share(given(state), names) for names in question.parts]
    return sum(share > 0 for share in shares) / len(shares)


def _answer_share(question: Question, state: State) -> Score:
    aliases = [alias for names in question.names for alias in names] if question.kind in ("short", "parts") else []
    return name_share(given(state), aliases) if aliases else None


def _hit(question: Question, state: State) -> Score:
    share = _answer_share(question, state)
    return None if share is None else float(share > 0)


def _unknown(_question: Question, state: State) -> Score:
    return float(state["status"] == "unknown")


def _lost(question: Question, state: State) -> Score:
    rule = {"short": squad_em, "yes_no": accuracy}.get(question.kind)
    if rule is None or not question.answers:
        return None
    pool = [candidate["answer"] for candidate in state.get("candidates", {}).values()]
    right = rule(given(state), question.answers)
    return float(not right and any(rule(answer, question.answers) for answer in pool))


@lru_cache(maxsize=1)
def _scorer() -> Any:
    need("ROUGE", "eval", "rouge_score")
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    english = DefaultTokenizer()  # it drops all other letters

    def tokenize(text: str) -> Sequence[str]:
        letters = filter(str.isalpha, normalize("NFC", text))
        return english.tokenize(text) if "".join(letters).isascii() else parted_words(text)

    return RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=SimpleNamespace(tokenize=tokenize))


@lru_cache(maxsize=256)
def rouge(answer: str, references: tuple[str, ...]) -> Mapping[str, float]:
    """Return ROUGE-1, -2 and -L with the reference that has the best ROUGE-L, each 0 to 1."""
    results = [_scorer().score(reference, answer) for reference in references]
    best = max(results, key=lambda result: result["rougeL"].fmeasure)
    return {name: score.fmeasure for name, score in best.items()}


def _rouge(name: str) -> Compute:
    return _of(lambda answer, references: rouge(answer, tuple(references))[name], "long", "parts")


_SQUAD, _FILCO, _SLIMPLM = "Rajpurkar et al. 2018, SQuAD", "Wang et al. 2023, FILCO", "Tan et al. 2024, SlimPLM"
_LIU, _ROUGE = "Liu et al. 2024, Post-fusion as Fallback", "Lin 2004"
_ASQA, _KILT = "Stelmakh et al. 2022, ASQA", "Petroni et al. 2021, KILT"
_UNIGRAM, _FILCO_EM = _of(squad_f1, "long", "parts"), _of(filco_em, "short")
_FILCO_F1 = _of(filco_f1, "short", "long", "parts")
METRICS = (
    Metric("em", "EM", "The answer equals a right answer, typography aside.", _of(exact_match, "short")),
    Metric("f1", "F1", "Words shared with the best right answer.", _of(f1, "short")),
    Metric("accuracy", "Accuracy", "The answer's first word is right, such as Yes.", _of(accuracy, "yes_no")),
    Metric(
        "coverage_em",
        "EM (ASQA)",
        "Share of the short answers that the text has, parts of words included.",
        _coverage,
        source=_ASQA,
    ),
    Metric(
        "hit_at_1", "Hit@1", "The text has at least one short answer, parts of words included.", _hit, source=_SLIMPLM
    ),
    Metric(
        "rouge_l", "ROUGE-L", "Longest common subsequence with the best reference.", _rouge("rougeL"), source=_ROUGE
    ),
    Metric(
        "rouge_1", "ROUGE-1", "Words shared with the reference of the best ROUGE-L.", _rouge("rouge1"), source=_ROUGE
    ),
    Metric(
        "rouge_2",
        "ROUGE-2",
        "Pairs of words shared with the reference of the best ROUGE-L.",
        _rouge("rouge2"),
        source=_ROUGE,
    ),
    Metric("unigram_f1", "Unigram F1", "Words shared with the best reference.", _UNIGRAM, source=_KILT),
    Metric("contains", "Contains", "The answer contains a right answer.", _contains),
    Metric(
        "answer_share",
        "EM (share)",
        "Share of the right answers' aliases that the text has, parts of words included.",
        _answer_share,
        source=_SLIMPLM,
    ),
    Metric("squad_em", "EM (SQuAD)", "Exact match by SQuAD's script.", _of(squad_em, "short"), source=_SQUAD),
    Metric("squad_f1", "F1 (SQuAD)", "F1 by SQuAD's script.", _of(squad_f1, "short"), source=_SQUAD),
    Metric(
        "filco_em",
        "EM (FILCO)",
        "Exact match by FILCO's script, punctuation included.",
        _FILCO_EM,
        source=_FILCO,
        on_request=True,
    ),
    Metric(
        "filco_f1",
        "F1 (FILCO)",
        "Letters shared with the best right answer.",
        _FILCO_F1,
        source=_FILCO,
        on_request=True,
    ),
    Metric("unknown", "%Unk", "No answer was given.", _unknown, higher_is_better=False, source=_LIU),
    Metric("nm", "%NM", "A candidate was right, but the answer is not.", _lost, higher_is_better=False, source=_LIU),
)


# ---- costs, on request: every report shows total calls and tokens

_SMALL = tuple(name for name, role in ROLES.items() if "proxy" in (name, role.fallback))
"""The roles of small models: the proxy's, and those that fall back to it."""
_SOURCE = "Tan et al. 2024, SlimPLM, table 4"
"""`api_calls` are those of the answering model in all its roles (#API), without those that read for Self-Ask, of which
the paper counts the rounds (appendix B). A token counts a tenth if a small model wrote it
(section 4.6), and one if the answering model wrote it in a small model's place."""


def _large_calls(_question: Question, state: State) -> Score:
    usage = state["usage"]
    calls = sum(counts["calls"] for role, counts in usage["by_role"].items() if role in state["large"])
    reader = usage["by_node"].get("read") if "self_ask" in usage["by_node"] else None
    return float(calls - (reader["calls"] if reader else 0))


def _written(state: State, role: str) -> float:
    tokens: int = state["usage"]["by_role"].get(role, {}).get("output_tokens", 0)
    return tokens / (1 if role in state["large"] else 10)


def _tokens(*roles: str) -> Compute:
    return lambda _question, state: sum(_written(state, role) for role in roles)


def _usage(*names: str) -> Compute:
    return lambda _question, state: float(sum(state["usage"][name] for name in names))


def _unread(_question: Question, state: State) -> Score:
    return float(sum(note["event"] == "reply_unreadable" for note in state.get("notes") or ()))


def _cost(name: str, label: str, summary: str, compute: Compute, source: str = "") -> Metric:
    return Metric(name, label, summary, compute, None, False, source, percent=False, on_request=True)


COSTS = (
    _cost("api_calls", "#API", "Calls of the answering model, without Self-Ask's reader.", _large_calls, _SOURCE),
    _cost("tokens", "Tokens", "Tokens read and written.", _usage("input_tokens", "output_tokens")),
    _cost("input_tokens", "Tokens in", "Tokens that models read.", _usage("input_tokens")),
    _cost("output_tokens", "Tokens out", "Tokens that models wrote.", _usage("output_tokens")),
    _cost("unread", "Unread", "Replies that did not have the required form and were ignored.", _unread),
    _cost("tokens_generator", "Large model", "Tokens of answers.", _tokens("generator"), _SOURCE),
    _cost("tokens_proxy", "Proxy", "Tokens of drafts, a tenth each.", _tokens("proxy"), _SOURCE),
    _cost("tokens_rewriter", "Rewriter", "Tokens of queries, a tenth each.", _tokens("rewriter"), _SOURCE),
    _cost("tokens_judge", "Judge", "Tokens of verdicts, a tenth each.", _tokens("judge"), _SOURCE),
    _cost(
        "tokens_small",
        "Small models",
        "Tokens of drafts, queries, verdicts and routes, a tenth each.",
        _tokens(*_SMALL),
        _SOURCE,
    ),
)
