"""The arguments of `build_graph` for each method, as typed dicts: what `face.pyi` unpacks.

Written by `make sync` from the methods' options. Of use for settings that are kept in a variable:
`settings: FilcoArguments = {"top": 2}`, then `build_graph("filco", **settings)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal

from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langgraph.types import Checkpointer, RetryPolicy
from typing_extensions import TypedDict

from ragweave.nodes.retrieve import Retriever
from ragweave.state import RAGState
from ragweave.tools.filters import ContextFilter
from ragweave.tools.models import ChatModel
from ragweave.tools.scorers.specs import LogprobScorer


class Arguments(TypedDict, total=False):
    """What every method takes."""

    model: str | ChatModel
    retriever: Retriever | None
    proxy: str | ChatModel | None
    judge: str | ChatModel | None
    rewriter: str | ChatModel | None
    filter_model: str | ChatModel | None
    scorer: LogprobScorer | None
    judge_scorer: LogprobScorer | None
    embeddings: Embeddings | None
    second_retriever: Retriever | None
    prompts: Mapping[str, ChatPromptTemplate | str] | None
    checkpointer: Checkpointer
    retry_policy: RetryPolicy | None
    state: type[RAGState]
    k: int
    answer_type: Literal["short", "long", "yes_no"]
    wording: Literal["method", "phrase", "many"]
    profile: Literal[
        "ours",
        "strategyqa",
        "paper",
        "blendfilter",
        "slimplm",
        "filco",
        "post_fusion",
        "ircot",
        "chain_of_note",
        "sure",
        "dos_rag",
    ]
    unknown: Literal["method"] | bool
    samples: int
    sample_temperature: float | None
    top_p: float | None
    order: Literal["retrieved", "reversed", "gold_first", "gold_last"]
    prompt_tokens: int | None
    reply_tokens: int
    constrain: Literal["auto"] | bool
    ask_again: bool
    citations: bool
    sufficient_context: Literal["printed"] | bool
    timeout: float | None


class DirectArguments(Arguments, total=False):
    """What `direct`, `cot` take."""

    shots: int
    retrieve: bool


class BlendFilterArguments(Arguments, total=False):
    """What `blendfilter` takes."""

    queries: Sequence[Literal["question", "external", "internal"]]
    hops: int
    knowledge_filter: bool
    shots: int


class SlimPlmArguments(Arguments, total=False):
    """What `slimplm` takes."""

    max_passages: int | None
    token_budget: int | None
    gate: Literal["mean", "least", "entropy", "margin", "variance", "dissimilarity"]
    gate_tokens: int
    gate_samples: int
    question_judge: bool
    rewrite: bool
    claim_filter: bool
    second_look: bool
    max_claims: int
    max_rewrites: int
    proxy_profile: Literal["instruct", "released"]
    route: Literal["judge", "uncertainty", "classifier"]
    router: str | PathLike[str]
    route_threshold: float | None
    margin: float
    proxy_temperature: float | None
    proxy_top_p: float | None
    proxy_tokens: int | None


class FilcoArguments(Arguments, total=False):
    """What `filco` takes."""

    filter: str | ContextFilter | None
    granularity: Literal["sentence", "passage"]
    top: Literal["auto"] | int | None
    threshold: float | None
    unit: Literal["words", "characters"]
    encoder: str | PathLike[str]
    rerank: bool
    lead: str | PathLike[str] | None


class AdaptiveArguments(Arguments, total=False):
    """What `adaptive` takes."""

    filter: str | ContextFilter | None
    granularity: Literal["sentence", "passage"]
    top: Literal["auto"] | int | None
    threshold: float | None
    unit: Literal["words", "characters"]
    encoder: str | PathLike[str]
    rerank: bool
    lead: str | PathLike[str] | None
    max_passages: int | None
    token_budget: int | None
    gate: Literal["mean", "least", "entropy", "margin", "variance", "dissimilarity"]
    gate_tokens: int
    gate_samples: int
    question_judge: bool
    rewrite: bool
    claim_filter: bool
    second_look: bool
    max_claims: int
    max_rewrites: int
    proxy_profile: Literal["instruct", "released"]
    route: Literal["judge", "uncertainty", "classifier"]
    router: str | PathLike[str]
    route_threshold: float | None
    margin: float
    proxy_temperature: float | None
    proxy_top_p: float | None
    proxy_tokens: int | None
    queries: Sequence[Literal["question", "external", "internal"]]
    hops: int
    knowledge_filter: bool
    shots: int
    union: Literal["interleave", "by_query"]
    answer: Literal["concat", "reason", "reference", "generate"]
    fallback: bool


class IterRetgenArguments(Arguments, total=False):
    """What `iter_retgen` takes."""

    shots: int
    rounds: int


class SelfAskArguments(Arguments, total=False):
    """What `self_ask` takes."""

    rounds: int
    stop_sequences: bool
    second_look: bool
    reader: bool


class ReactArguments(Arguments, total=False):
    """What `react` takes."""

    max_steps: int
    second_look: bool
    stop_sequences: bool


class FlareArguments(Arguments, total=False):
    """What `flare` takes."""

    rounds: int
    threshold: float
    mask_below: float


class SelfEvalArguments(Arguments, total=False):
    """What `self_eval` takes."""

    second_look: bool
    decided_by: Literal["answer", "judge"]


class SkrKnnArguments(Arguments, total=False):
    """What `skr_knn` takes."""

    second_look: bool
    training: str | PathLike[str]
    neighbours: int
    prior: float | None
    embedding: str | PathLike[str]


class DosRagArguments(Arguments, total=False):
    """What `dos_rag` takes."""

    token_budget: int | None
    document_order: bool


class IrcotArguments(Arguments, total=False):
    """What `ircot` takes."""

    max_steps: int
    max_passages: int | None
    read_by: Literal["cot", "direct", "chain"]


class ChainOfNoteArguments(Arguments, total=False):
    """What `chain_of_note` takes."""

    notes: bool
    own_knowledge: bool


class CragArguments(Arguments, total=False):
    """What `crag` takes."""

    refine: bool
    strips: int | None
    strip_sentences: int
    rewrite: bool
    second_search: bool


class SureArguments(Arguments, total=False):
    """What `sure` takes."""

    candidates: int
    validity: bool
    ranking: bool


class AstuteArguments(Arguments, total=False):
    """What `astute` takes."""

    own_passages: int
    iterations: int


class UncertaintyGateArguments(Arguments, total=False):
    """What `uncertainty_gate` takes."""

    second_look: bool
    gate: Literal["mean", "least", "entropy", "margin", "variance", "dissimilarity"]
    gate_tokens: int
    gate_samples: int
    threshold: float | None
    gated_by: Literal["answer", "proxy"]


class AdaptiveRagArguments(Arguments, total=False):
    """What `adaptive_rag` takes."""

    max_steps: int
    max_passages: int | None
    read_by: Literal["cot", "direct", "chain"]
    strategy: Literal["classified", "none", "one", "many"]
    k_one: int
    second_look: bool
    router: str | PathLike[str]
    route_threshold: float | None
