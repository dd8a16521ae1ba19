"""SuRe: candidate answers, a summary of the passages for each, and which summary holds best.

Source: Kim et al. 2024 (SuRe: Summarizing Retrievals using Answer Candidates for Open-domain QA of
LLMs, ICLR), section 3, and its released code, which has the prompts:

1. Candidates: one prompt over all passages asks for K answers, (a), (b), …; K is 2.
2. Summaries: for each candidate, the passages are summed up so as to support it.
3. Validity: does the summary support its candidate? `v` is 1 for True, else 0. Ranking: each
   summary is compared with each other one, in both orders: `r` adds 1 for the one preferred and
   1/2 each where the two orders disagree or say neither.
4. The candidate with the highest `v + r` answers; of equals the first.

Ten passages are read, greedily. With a single candidate there is nothing to compare and it answers,
as in the released code. Where we differ: wording and examples are ours unless `profile="paper"`
asks for the released ones, a reply without a candidate is Unknown, and of a pair whose one order
can't be read the other order decides a half (in the released code the whole).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated, NotRequired

from langchain_core.documents import Document
from langgraph.types import Send
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.nodes.ask import Ask, Prompt, Reply, Templates
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.profile import Paper
from ragweave.nodes.replies import bare_text
from ragweave.nodes.reply_form import PASSAGE_TOKENS, SHORT_ANSWER_TOKENS, VERDICT_TOKENS, Choice
from ragweave.nodes.rounds import ids_of, refuse_answer_options, refuse_samples
from ragweave.nodes.step import Context, Goto, Step, Work, pure
from ragweave.nodes.sure_prompts import EXAMPLES
from ragweave.nodes.sure_reply import (
    MOST_CANDIDATES,
    knows_no_candidate,
    parse_candidates,
    parse_preference,
    parse_validity,
    scores,
)
from ragweave.nodes.vote import conclude
from ragweave.nodes.wording import UNKNOWN_CLAUSE, Style, shown_by, style_of, worded
from ragweave.state import AnswerType, Candidate, RAGState, Update, merge_by_key
from ragweave.tools.models import Models
from ragweave.tools.text.reply import PromptParts
from ragweave.tools.text.unknown import UNKNOWN
from ragweave.tools.text.untrusted import one_line, untrusted

_FORMS: Mapping[AnswerType, str] = {
    "short": "Make each as short as can be.",
    "long": "Write each in one complete sentence.",
    "yes_no": "Each is Yes or No.",
}


@dataclass(frozen=True, kw_only=True)
class SureOptions(Options):
    """Options of `sure`."""

    k: int = 10
    """Passages (released code: ten)."""
    candidates: int = 2
    """Candidate answers that are asked for (K; released code: two)."""
    validity: bool = True
    """Whether each summary's validity counts (the ablation of table 3)."""
    ranking: bool = True
    """Whether summaries are compared pairwise (the ablation of table 3)."""

    @property
    def own_paper(self) -> Paper:
        """SuRe."""
        return "sure"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range, or samples, a wording of answers or a rating
                of the passages is asked for.
        """
        super().__post_init__()
        at_least("candidates", self.candidates, 1)
        if self.candidates > MOST_CANDIDATES:
            raise UsageError(f"candidates must be at most {MOST_CANDIDATES}, a letter each")
        refuse_samples(self, "sure")
        refuse_answer_options(self, "sure")


class SureState(RAGState):
    """The state of `sure`."""

    proposed: list[str]
    """The candidate answers, in the order given."""
    summaries: Annotated[dict[str, str], merge_by_key]
    """The summary for each candidate, by its number."""
    valid: Annotated[dict[str, bool], merge_by_key]
    """Whether each summary supports its candidate, by its number."""
    preferred: Annotated[dict[str, str], merge_by_key]
    """Of each ordered pair `I:J` of candidates the number of the one preferred; "" for neither."""


class SureUpdate(Update, total=False):
    """An update of that state."""

    proposed: list[str]
    summaries: dict[str, str]
    valid: dict[str, bool]
    preferred: dict[str, str]


class SureBranch(TypedDict):
    """The input of one branch: a candidate, or an ordered pair of them."""

    question: str
    proposed: list[str]
    number: int
    other: int
    """The second of a pair; the same as `number` elsewhere."""
    summaries: dict[str, str]
    passages: list[Document]
    deadline: NotRequired[float | None]


_IN_LETTERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}


def _rendered(options: SureOptions) -> Callable[[Sequence[Document]], str]:
    """Return how passages stand in the prompt: in the paper's way where its words are asked for."""
    return (style_of(options) or Style()).render


def propose_step(
    models: Models, templates: Templates, options: SureOptions
) -> Step[SureState, SureOptions]:
    """Return the node `propose`: asks once for candidate answers."""

    def prompt(state: SureState, opts: SureOptions) -> Prompt:
        kind = state["resolved_answer_type"]
        values = {
            "question": state["question"],
            "count": opts.candidates,
            "counted": _IN_LETTERS.get(opts.candidates, str(opts.candidates)),
            "shown": len(state["passages"]),
            "answer_form": _FORMS[kind],
            "unknown": "" if opts.unknown is False else f" {UNKNOWN_CLAUSE}",
        }
        room = PASSAGE_TOKENS if kind == "long" else SHORT_ANSWER_TOKENS
        return Prompt(
            worded(templates, "sure", opts, answers=False),
            {"task": "answer", "question": state["question"], "answer_type": kind},
            values,
            state["passages"],
            opts.sampling,
            _rendered(opts),
            reply_tokens=room * opts.candidates,
        )

    question = Ask[SureState, SureOptions](
        name="propose", role="answer", prompt=prompt, update=_proposed
    )
    return question.step(models, options)


def _proposed(state: SureState, reply: Reply, context: Context[SureOptions]) -> Update:
    seen = "\n".join(doc.page_content for doc in reply.passages)
    parts = PromptParts(state["question"], shown_by(reply, EXAMPLES), seen)
    kind, most = state["resolved_answer_type"], context.options.candidates
    answers = parse_candidates(reply.text, kind, most, parts)
    if not answers and not knows_no_candidate(reply.text, most):
        context.note("candidates_unparsed")
    made: SureUpdate = {
        "proposed": answers,
        "candidates": {
            f"propose:{number}": _candidate(answer, reply, "propose", number)
            for number, answer in enumerate(answers or [UNKNOWN])
        },
    }
    return made


def _candidate(answer: str, reply: Reply, pool: str, number: int) -> Candidate:
    return {
        "answer": answer,
        "reply": reply.text,
        "pool": pool,
        "round": int(pool == "summarise"),
        "rank": number,
        "sample": 0,
        "passages": ids_of(reply.passages),
    }


def to_summaries(state: SureState, _options: SureOptions) -> Goto:
    """Route: a summary for each of several candidates; one alone needs none."""
    several = range(len(state["proposed"])) if len(state["proposed"]) > 1 else ()
    return [Send("summarise", _branch(state, number, number)) for number in several] or "choose"


def _branch(state: SureState, number: int, other: int) -> SureBranch:
    return {
        "question": state["question"],
        "proposed": state["proposed"],
        "number": number,
        "other": other,
        "summaries": state["summaries"],
        "passages": state["passages"],
        "deadline": state.get("deadline"),
    }


def summarise_step(
    models: Models, templates: Templates, options: SureOptions
) -> Step[SureBranch, SureOptions]:
    """Return the node `summarise`: sums the passages up so as to support a candidate."""

    def prompt(branch: SureBranch, opts: SureOptions) -> Prompt:
        choices = [one_line(one) for one in branch["proposed"]]
        listed = " ".join(f"({chr(ord('a') + n)}) {one}" for n, one in enumerate(choices))
        values = {
            "question": branch["question"],
            "choices": listed,
            "letter": chr(ord("a") + branch["number"]),
            "prediction": choices[branch["number"]],
        }
        return Prompt(
            worded(templates, "sure_summary", opts, answers=False),
            {"task": "reason", "question": branch["question"]},
            values,
            branch["passages"],
            render=_rendered(opts),
            reply_tokens=PASSAGE_TOKENS,
        )

    def update(branch: SureBranch, reply: Reply, _context: Context[SureOptions]) -> Update:
        number = branch["number"]
        answer = branch["proposed"][number]
        made: SureUpdate = {
            "summaries": {str(number): bare_text(reply.text).removesuffix("[DONE]").strip()},
            "candidates": {f"summarise:{number}": _candidate(answer, reply, "summarise", number)},
        }
        return made

    question = Ask[SureBranch, SureOptions](
        name="summarise", role="answer", prompt=prompt, update=update
    )
    return question.step(models, options)


def to_checks(state: SureState, options: SureOptions) -> Goto:
    """Route: each summary's validity, and each ordered pair of summaries, side by side."""
    numbers = range(len(state["proposed"]))
    checks = [Send("verify", _branch(state, n, n)) for n in numbers if options.validity]
    pairs = permutations(numbers, 2) if options.ranking else ()
    return [*checks, *(Send("rank", _branch(state, *pair)) for pair in pairs)] or "choose"


def verify_step(
    models: Models, templates: Templates, options: SureOptions
) -> Step[SureBranch, SureOptions]:
    """Return the node `verify`: does a summary support its candidate? Unreadable means no."""

    def prompt(branch: SureBranch, opts: SureOptions) -> Prompt:
        number, asked = branch["number"], branch["question"]
        summary, answer = branch["summaries"][str(number)], branch["proposed"][number]
        values = {
            "question": asked,
            "prediction": one_line(answer),
            "summary": one_line(untrusted(summary)),
        }
        return Prompt(
            worded(templates, "sure_valid", opts, answers=False),
            {"task": "judge", "question": asked, "draft": answer},
            values,
            form=lambda _shown: Choice(("True", "False")),
            reply_tokens=VERDICT_TOKENS,
        )

    def update(branch: SureBranch, reply: Reply, context: Context[SureOptions]) -> Update:
        valid = parse_validity(reply.text)
        if valid is None:
            context.note("validity_unparsed", candidate=branch["proposed"][branch["number"]])
        made: SureUpdate = {"valid": {str(branch["number"]): bool(valid)}}
        return made

    question = Ask[SureBranch, SureOptions](
        name="verify", role="judge", prompt=prompt, update=update
    )
    return question.step(models, options)


def rank_step(
    models: Models, templates: Templates, options: SureOptions
) -> Step[SureBranch, SureOptions]:
    """Return the node `rank`: which of two summaries answers better? Unreadable means neither."""

    def prompt(branch: SureBranch, opts: SureOptions) -> Prompt:
        pair, asked = (branch["number"], branch["other"]), branch["question"]
        first, second = (one_line(untrusted(branch["summaries"][str(n)])) for n in pair)
        return Prompt(
            worded(templates, "sure_rank", opts, answers=False),
            {"task": "judge", "question": asked, "draft": first},
            {"question": asked, "first": first, "second": second},
            form=lambda _shown: Choice(("Passage 1", "Passage 2")),
            reply_tokens=VERDICT_TOKENS,
        )

    def update(branch: SureBranch, reply: Reply, context: Context[SureOptions]) -> Update:
        pair = branch["number"], branch["other"]
        named = parse_preference(reply.text)
        if named is None:
            context.note("ranking_unparsed", pair=list(pair))
        won = "" if named is None else str(pair[named - 1])
        made: SureUpdate = {"preferred": {f"{pair[0]}:{pair[1]}": won}}
        return made

    question = Ask[SureBranch, SureOptions](name="rank", role="judge", prompt=prompt, update=update)
    return question.step(models, options)


def choose_step(options: SureOptions) -> Step[SureState, SureOptions]:
    """Return the node `choose`: the candidate with the highest score answers; of equals the first."""

    def body(state: SureState, context: Context[SureOptions]) -> Work:
        proposed, made = state["proposed"], state["candidates"]
        if not proposed:
            return pure(conclude(state, UNKNOWN, made.values(), context.options))
        points = scores(len(proposed), state["valid"], state["preferred"])
        best = points.index(max(points))
        winner = made.get(f"summarise:{best}") or made[f"propose:{best}"]
        return pure(conclude(state, proposed[best], [winner], context.options))

    return Step("choose", body, options)
