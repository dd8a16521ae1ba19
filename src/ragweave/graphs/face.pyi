# Written by `make sync` from the methods' options.
from typing import Any, Literal, overload

from typing_extensions import Unpack

from ragweave.graphs.arguments import (
    AdaptiveArguments,
    AdaptiveRagArguments,
    Arguments,
    AstuteArguments,
    BlendFilterArguments,
    ChainOfNoteArguments,
    CragArguments,
    DirectArguments,
    DosRagArguments,
    FilcoArguments,
    FlareArguments,
    IrcotArguments,
    IterRetgenArguments,
    ReactArguments,
    SelfAskArguments,
    SelfEvalArguments,
    SkrKnnArguments,
    SlimPlmArguments,
    SureArguments,
    UncertaintyGateArguments,
)
from ragweave.graphs.chat import ChatGraph
from ragweave.graphs.frame import CompiledGraph
from ragweave.graphs.method import Method
from ragweave.tools.models import ChatModel

@overload
def build_graph(
    name: Literal["direct", "cot"],
    **given: Unpack[DirectArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["concat", "post_fusion", "pruning", "summary", "concat_pf", "pf_concat"],
    **given: Unpack[Arguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["blendfilter"],
    **given: Unpack[BlendFilterArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["slimplm"],
    **given: Unpack[SlimPlmArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["filco"],
    **given: Unpack[FilcoArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["adaptive"],
    **given: Unpack[AdaptiveArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["iter_retgen"],
    **given: Unpack[IterRetgenArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["self_ask"],
    **given: Unpack[SelfAskArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["react"],
    **given: Unpack[ReactArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["flare"],
    **given: Unpack[FlareArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["self_eval"],
    **given: Unpack[SelfEvalArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["skr_knn"],
    **given: Unpack[SkrKnnArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["dos_rag"],
    **given: Unpack[DosRagArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["ircot"],
    **given: Unpack[IrcotArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["chain_of_note"],
    **given: Unpack[ChainOfNoteArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["crag"],
    **given: Unpack[CragArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["sure"],
    **given: Unpack[SureArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["astute"],
    **given: Unpack[AstuteArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["uncertainty_gate"],
    **given: Unpack[UncertaintyGateArguments],
) -> CompiledGraph: ...
@overload
def build_graph(
    name: Literal["adaptive_rag"],
    **given: Unpack[AdaptiveRagArguments],
) -> CompiledGraph: ...
@overload
def build_graph(name: Method, **given: Any) -> CompiledGraph: ...
@overload
def build_chat(
    name: Literal["direct", "cot"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[DirectArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["concat", "post_fusion", "pruning", "summary", "concat_pf", "pf_concat"] = ...,
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[Arguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["blendfilter"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[BlendFilterArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["slimplm"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[SlimPlmArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["filco"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[FilcoArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["adaptive"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[AdaptiveArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["iter_retgen"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[IterRetgenArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["self_ask"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[SelfAskArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["react"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[ReactArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["flare"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[FlareArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["self_eval"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[SelfEvalArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["skr_knn"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[SkrKnnArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["dos_rag"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[DosRagArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["ircot"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[IrcotArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["chain_of_note"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[ChainOfNoteArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["crag"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[CragArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["sure"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[SureArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["astute"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[AstuteArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["uncertainty_gate"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[UncertaintyGateArguments],
) -> ChatGraph: ...
@overload
def build_chat(
    name: Literal["adaptive_rag"],
    *,
    restater: str | ChatModel | None = ...,
    history_tokens: int = ...,
    **given: Unpack[AdaptiveRagArguments],
) -> ChatGraph: ...
@overload
def build_chat(name: Method, **given: Any) -> ChatGraph: ...
