"""The retrieval necessity judge: is a draft answer, or a claim of it, known well enough?

Source: SlimPLM, section 3.2, and 3.3 for claims: the same judge, with the claim in the place of the
answer and its query in the place of the question. Where the judge gives log-probabilities, it is
read by the margin of `<Known(True)>` over `<Known(False)>`, as the released code does; otherwise
by its text. A local chat model is scored only under the released prompts, whose marks are known. A verdict that can't be read counts as not known: retrieve.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.notes import note
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.scores import scorer_of
from ragweave.nodes.step import Call, Step, Work
from ragweave.state import Update
from ragweave.tools.claims import parse_judgement
from ragweave.tools.gbnf import one_of
from ragweave.tools.models import Models
from ragweave.tools.scorers.protocol import LogprobScorer, ascore
from ragweave.tools.tasks import Task
from ragweave.tools.text.tokens import estimate_tokens
from ragweave.tools.text.untrusted import untrusted

VERDICTS = ("<Known(True)>", "<Known(False)>")

JudgeNode = Literal["judge", "judge_claim"]
Write = Callable[[Mapping[str, Any], bool], Update]


def judge_step(
    models: Models, templates: Templates, options: OptionsT, scorer: LogprobScorer | None = None
) -> Step[OptionsT]:
    """Return the node `judge`: judges the draft answer, sets `known`."""
    return _step(
        "judge", models, templates, options, scorer, lambda _state, known: {"known": known}
    )


def judge_claim_step(
    models: Models, templates: Templates, options: OptionsT, scorer: LogprobScorer | None = None
) -> Step[OptionsT]:
    """Return the node `judge_claim`: judges one claim by its query, writes `verdicts[key]`."""

    def write(state: Mapping[str, Any], known: bool) -> Update:
        return {"verdicts": {state["key"]: known}}

    return _step("judge_claim", models, templates, options, scorer, write)


def _step(
    name: JudgeNode,
    models: Models,
    templates: Templates,
    options: OptionsT,
    scorer: LogprobScorer | None,
    write: Write,
) -> Step[OptionsT]:
    def prompt(state: Mapping[str, Any], opts: Any) -> Prompt:
        return judge_prompt(state, opts, templates)

    def update(_state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"known": parse_judgement(reply.text)}

    question = Ask[OptionsT](name=name, role="judge", prompt=prompt, update=update)
    judge = models.by_role("judge")

    def body(state: Mapping[str, Any], opts: Any, config: RunnableConfig) -> Work:
        scores = scorer or scorer_of(judge, local=opts.proxy_profile == "released")
        if scores is None:
            told = yield from ask(question, models, state, opts, config)
            if opts.margin:
                told["notes"] = [*told["notes"], note(config, name, "margin_unread")]
        else:
            told = yield from _by_margin(name, scores, prompt(state, opts), opts)
        known = told.pop("known")
        if known is None:
            told["notes"] = [*told["notes"], note(config, name, "judge_unparsed")]
        return {**told, **write(state, bool(known))}

    return Step(name, body, options)


def judge_prompt(
    state: Mapping[str, Any], options: NecessityOptions, templates: Templates
) -> Prompt:
    """Ask whether a draft answers a question, or a claim its query."""
    claim = "claim" in state
    question = state["query"] if claim else state["question"]
    text = state["claim"] if claim else state["heuristic_answer"]
    task: Task = {"task": "judge", "question": question, "draft": text}
    name = "judge_released" if options.proxy_profile == "released" else "judge"
    values = {"question": question, "draft": untrusted(text)}
    return Prompt(templates[name], task, values, grammar=lambda _shown: one_of(VERDICTS))


def _by_margin(name: JudgeNode, scorer: LogprobScorer, prompt: Prompt, options: Any) -> Work:
    text = scored_text(prompt.messages([]), options.proxy_profile)
    score = RunnableLambda(scorer.score, afunc=functools.partial(ascore, scorer))
    known, unknown = yield Call(score, [(text, verdict) for verdict in VERDICTS])
    tokens = {
        "calls": 1,
        "input_tokens": sum(estimate_tokens(text + verdict) for verdict in VERDICTS),
        "output_tokens": 0,
    }
    usage = {
        **tokens,
        "estimated": True,
        "retrievals": 0,
        "by_role": {"judge": tokens},
        "by_node": {name: tokens},
    }
    return {"known": known - unknown > options.margin, "usage": usage, "notes": []}


def scored_text(messages: Sequence[BaseMessage], profile: str) -> str:
    """Return the text whose continuation is scored; the released models take Llama 2's marks."""
    texts = [message.text for message in messages]
    if profile == "released":
        return f"[INST] <<SYS>>\n{texts[0]} <</SYS>>\n {texts[-1]} [/INST]"
    return "\n\n".join(texts) + "\n\n"
