"""What an answer costs: calls, tokens and unreadable replies, on request; every report shows calls and tokens in all.

`api_calls` are those of the answering model, whatever roles it plays (SlimPLM, #API). A token that a small model
wrote counts a tenth (SlimPLM, section 4.6); one of the answering model in a small one's place counts one.
"""

from __future__ import annotations

from ragweave.datasets import Question
from ragweave.evaluation.metrics.metric import Compute, Metric, Score, State

_SMALL = ("proxy", "rewrite", "judge", "router")
_SOURCE = "Tan et al. 2024, SlimPLM, table 4"


def _large_calls(_question: Question, state: State) -> Score:
    by_role = state["usage"]["by_role"]
    return float(sum(one["calls"] for role, one in by_role.items() if role in state["large"]))


def _written(state: State, role: str) -> float:
    tokens: int = state["usage"]["by_role"].get(role, {}).get("output_tokens", 0)
    return tokens / (1 if role in state["large"] else 10)


def _tokens(*roles: str) -> Compute:
    return lambda _question, state: sum(_written(state, role) for role in roles)


def _usage(*names: str) -> Compute:
    return lambda _question, state: float(sum(state["usage"][name] for name in names))


def _unread(_question: Question, state: State) -> Score:
    return float(sum(one["event"] == "reply_unreadable" for one in state.get("notes") or ()))


def _cost(name: str, label: str, summary: str, compute: Compute, source: str = "") -> Metric:
    return Metric(name, label, summary, compute, None, False, source, percent=False, on_request=True)


METRICS = (
    _cost("api_calls", "#API", "Calls of the answering model.", _large_calls, _SOURCE),
    _cost("tokens", "Tokens", "Tokens read and written.", _usage("input_tokens", "output_tokens")),
    _cost("input_tokens", "Tokens in", "Tokens that models read.", _usage("input_tokens")),
    _cost("output_tokens", "Tokens out", "Tokens that models wrote.", _usage("output_tokens")),
    _cost(
        "unread", "Unread", "Replies that did not have the form they were asked for, and count for nothing.", _unread
    ),
    _cost("tokens_answer", "Large model", "Tokens of answers.", _tokens("answer"), _SOURCE),
    _cost("tokens_proxy", "Proxy", "Tokens of drafts, a tenth each.", _tokens("proxy"), _SOURCE),
    _cost("tokens_rewrite", "Rewriter", "Tokens of queries, a tenth each.", _tokens("rewrite"), _SOURCE),
    _cost("tokens_judge", "Judge", "Tokens of verdicts, a tenth each.", _tokens("judge"), _SOURCE),
    _cost("tokens_small", "Small models", "The last three together.", _tokens(*_SMALL), _SOURCE),
)
