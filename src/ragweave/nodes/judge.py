"""The retrieval necessity judge: is a draft answer, or a claim of it, known well enough?

Source: SlimPLM, section 3.2, and 3.3 for claims: the same judge, with the claim in the place of the
answer and its query in the place of the question. Where the judge gives log-probabilities, it is
read by the margin of `<Known(True)>` over `<Known(False)>`, as the released code does; otherwise
by its text. A local chat model is scored only under the released prompts, whose marks are known. A
verdict that can't be read counts as not known: retrieve.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda

from ragweave.nodes.ask import Question, reply_to
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.scores import scorer_of
from ragweave.nodes.step import Call, Context, StateT, Step, Work
from ragweave.state import ClaimBranch, RAGState, Tokens, Update, Usage
from ragweave.tools.claims import parse_judgement
from ragweave.tools.gbnf import one_of
from ragweave.tools.models import Models
from ragweave.tools.scorers.protocol import LogprobScorer, ascore
from ragweave.tools.tasks import Task
from ragweave.tools.text.tokens import estimate_tokens
from ragweave.tools.text.untrusted import untrusted

VERDICTS = ("<Known(True)>", "<Known(False)>")

JudgeNode = Literal["judge", "judge_claim"]


def judge_step(
    models: Models,
    templates: Templates,
    options: NecessityOptions,
    scorer: LogprobScorer | None = None,
) -> Step[RAGState, NecessityOptions]:
    """Return the node `judge`: judges the draft answer, sets `known`."""

    def prompt(state: RAGState, opts: NecessityOptions) -> Prompt:
        return judge_prompt(state["question"], state["heuristic_answer"], opts, templates)

    def write(_state: RAGState, known: bool) -> Update:
        return {"known": known}

    question = Question(name="judge", role="judge", prompt=prompt)
    return _step(question, models, options, scorer, write)


def judge_claim_step(
    models: Models,
    templates: Templates,
    options: NecessityOptions,
    scorer: LogprobScorer | None = None,
) -> Step[ClaimBranch, NecessityOptions]:
    """Return the node `judge_claim`: judges one claim by its query, writes `verdicts[key]`."""

    def prompt(branch: ClaimBranch, opts: NecessityOptions) -> Prompt:
        return judge_prompt(branch["query"], branch["claim"], opts, templates)

    def write(branch: ClaimBranch, known: bool) -> Update:
        return {"verdicts": {branch["key"]: known}}

    question = Question(name="judge_claim", role="judge", prompt=prompt)
    return _step(question, models, options, scorer, write)


def _step(
    question: Question[StateT, NecessityOptions],
    models: Models,
    options: NecessityOptions,
    scorer: LogprobScorer | None,
    write: Callable[[StateT, bool], Update],
) -> Step[StateT, NecessityOptions]:
    judge = models.by_role("judge")

    def body(state: StateT, context: Context[NecessityOptions]) -> Work:
        scores = scorer or scorer_of(judge, local=context.options.proxy_profile == "released")
        if scores is not None:
            prompt = question.prompt(state, context.options)
            return write(state, (yield from _by_margin(scores, prompt, context)))
        reply = yield from reply_to(question, models, state, context)
        known = parse_judgement(reply.text)
        if known is None:
            context.note("judge_unparsed")
        return write(state, bool(known))

    return Step(question.name, body, options)


def judge_prompt(
    question: str, draft: str, options: NecessityOptions, templates: Templates
) -> Prompt:
    """Ask whether a draft answers a question, or a claim its query."""
    task: Task = {"task": "judge", "question": question, "draft": draft}
    name = "judge_released" if options.proxy_profile == "released" else "judge"
    values = {"question": question, "draft": untrusted(draft)}
    return Prompt(templates[name], task, values, grammar=lambda _shown: one_of(VERDICTS))


def _by_margin(
    scorer: LogprobScorer, prompt: Prompt, context: Context[NecessityOptions]
) -> Generator[Call, Any, bool]:
    text = scored_text(prompt.messages([]), context.options.proxy_profile)
    score = RunnableLambda(scorer.score, afunc=functools.partial(ascore, scorer))
    known, unknown = yield Call(score, [(text, verdict) for verdict in VERDICTS])
    tokens: Tokens = {
        "calls": 1,
        "input_tokens": sum(estimate_tokens(text + verdict) for verdict in VERDICTS),
        "output_tokens": 0,
    }
    usage: Usage = {
        "calls": 1,
        "input_tokens": tokens["input_tokens"],
        "output_tokens": 0,
        "estimated": True,
        "retrievals": 0,
        "by_role": {"judge": tokens},
        "by_node": {context.node: tokens},
    }
    context.spend(usage)
    return bool(known - unknown > context.options.margin)


def scored_text(messages: Sequence[BaseMessage], profile: str) -> str:
    """Return the text whose continuation is scored; the released models take Llama 2's marks."""
    texts = [message.text for message in messages]
    if profile == "released":
        return f"[INST] <<SYS>>\n{texts[0]} <</SYS>>\n {texts[-1]} [/INST]"
    return "\n\n".join(texts) + "\n\n"
