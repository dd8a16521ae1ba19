"""A conversation over any method: messages in, an answer with citations out.

A follow-up ("and who wrote it?") is rewritten to stand alone before the method sees it, as in
conversational retrieval: Elgohary et al. 2019 (CANARD), Anantha et al. 2021 (QReCC).
"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.messages import AnyMessage, get_buffer_string, trim_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from langgraph.types import Checkpointer
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.graphs.base import RETRY, Graph, Method, MethodGraph, empty_state
from ragweave.graphs.build import build_graph
from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Form
from ragweave.nodes.options import Options
from ragweave.nodes.prompts import QUERY_TOKENS, Asking, Prompt, Prompts, PromptText, Reply, template_of
from ragweave.nodes.read import bare, is_unknown, plain
from ragweave.nodes.runner import Caller, Components, FunctionNode, Node
from ragweave.state import Citation, Note, RAGOutput, Status, Usage, add_usage, merge_notes
from ragweave.state.passages import heading_of
from ragweave.tools.footnotes import cited_message
from ragweave.tools.models.messages import ending_of
from ragweave.tools.models.roles import ChatModel, Models
from ragweave.tools.providers import chat_model
from ragweave.tools.text.words import estimate_message_tokens, first_tokens

HISTORY_TOKENS = 1_000
MAX_QUESTION_CHARACTERS = 400
"""Maximum characters of a restated question; a longer text is not taken for one."""


class ChatInput(TypedDict):
    """A conversation's input; with a checkpointer, only the new messages."""

    messages: Annotated[list[AnyMessage], add_messages]


class Answered(TypedDict):
    """The answer as a record, for an agent that uses the conversation as a subagent."""

    question: str
    answer: str
    status: Status
    citations: list[Citation]
    sources: list[str]
    """Titles of the passages, or their ids."""
    usage: Usage


class ChatOutput(ChatInput, RAGOutput):
    """A conversation's output: the messages, the answer at their end, and how it came about.

    Its `question` is the question as the method was asked it.
    """

    structured_response: Answered
    """What deepagents returns to the calling agent."""


class ChatState(ChatOutput, total=False):
    """The state of a conversation."""

    usage: Annotated[Usage, add_usage]  # type: ignore[misc]
    notes: Annotated[list[Note], merge_notes]


_RESTATE = (
    "Rewrite the last question of a conversation so that it can be understood without the conversation: put "
    "names in the place of words such as it, they or there, and add what was left out. Keep its language. Do "
    "not answer it; write the question alone. A question that stands alone already is repeated as it is.\n\n"
    "Conversation:\nUser: When was the lighthouse on Lake Orrin lit?\nAssistant: 1891\n"
    "Last question: And who paid for it?\nRewritten: Who paid for the lighthouse on Lake Orrin?\n\n"
    "Conversation:\n{history}\nLast question: {question}\nRewritten:"
)


def turn(state: ChatState) -> dict[str, Any]:
    """Take the user's last message as the question, and clear what the last turn left."""
    last = state["messages"][-1] if state.get("messages") else None
    if last is None or last.type != "human" or not str(last.text).strip():
        raise UsageError("the last message must be a question from the user, in text")
    empty = empty_state(ChatState)
    del empty["messages"]
    return {**empty, "question": str(last.text).strip(), "status": "unknown"}


@model_node("restater")
def restate(state: ChatState, _options: Options) -> Asking[Form, dict[str, Any]]:
    """Ask for the question in a form that stands alone; a first question stays, and so does one restated at length."""
    earlier = state["messages"][:-1]
    turns = [
        message.model_copy(update={"content": first_tokens(str(message.text), HISTORY_TOKENS // 2)})
        for message in earlier
        if message.type in ("human", "ai") and str(message.text).strip()
    ]
    history = trim_messages(turns, max_tokens=HISTORY_TOKENS, token_counter=estimate_message_tokens, strategy="last")
    if not history:
        return {}
    shown = get_buffer_string(history, human_prefix="User", ai_prefix="Assistant")
    asked = [str(message.text) for message in reversed(history) if message.type == "human"]
    values = {"history": shown, "earlier": asked}
    reply = yield Prompt("restate", values, max_tokens=QUERY_TOKENS, task="restate")
    question = _restated(reply, state["question"])
    is_question = 0 < len(question) <= MAX_QUESTION_CHARACTERS and ("?" in question or not is_unknown(question))
    return {"question": question if is_question else state["question"]}


_HEADING = re.compile(r"^[^\n]*[:：][*_ ]*\n\s*", re.M)
_LEAD = re.compile(r"\A\W*(?:[\w',]+ ){0,5}(?:question|rewritten)[*_ ]*[:：]\s*", re.I)
_BREAK = re.compile(r"\n\s*\n|\n(?=\W*(?:conversation|last question|user|assistant)[*_ ]*:)", re.I)


def _restated(reply: Reply[Form], question: str) -> str:
    """Return a reply's restatement, without a heading or a lead; "" if it was cut.

    It has as many paragraphs as the question: what follows is a remark, or the next turn of a model that runs on.
    """
    text = plain(reply.text)
    heading = None if _HEADING.search(question) else _HEADING.match(text)
    text = _LEAD.sub("", text[heading.end() :] if heading else text)
    paragraphs, count = _BREAK.split(text), len(_BREAK.split(question))
    is_cut = len(paragraphs) <= count and reply.message is not None and ending_of(reply.message) == "length"
    return "" if is_cut else bare("\n\n".join(paragraphs[:count]))


def reply(state: ChatState) -> dict[str, Any]:
    """Say the answer, with its citations as annotations of the text."""
    titles = [heading_of(doc.metadata) or str(doc.id) for doc in state["passages"]]
    record = Answered(
        question=state["question"],
        answer=state["answer"],
        status=state["status"],
        citations=state["citations"],
        sources=list(dict.fromkeys(titles)),
        usage=state["usage"],
    )
    message = cited_message(state["answer"], state["passages"], state["citations"])
    return {"messages": [message], "structured_response": record}


def _silent(node: Runnable[Any, Any], state_of: Callable[[ChatState], Any] = lambda state: state) -> Node:
    """Return a node that runs another one, whose tokens no stream of messages shows: the reply is shown whole."""

    async def silent(state: ChatState, config: RunnableConfig, caller: Caller) -> Any:
        tagged: RunnableConfig = {**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]}
        more: dict[str, Any] = {}
        if isinstance(node, MethodGraph):
            more = {"context": get_runtime(Options).context, "output_keys": [*RAGOutput.__annotations__, "notes"]}
        return await caller.call(node, state_of(state), tagged, **more)

    return FunctionNode(silent, name=node.get_name())


def build_chat(
    name: str | Method = "concat_pf",
    *,
    model: str | ChatModel = "extractive",
    restater: str | ChatModel | None = None,
    checkpointer: Checkpointer = None,
    citations: bool = True,
    prompts: Prompts | None = None,
    **method: Any,
) -> MethodGraph:
    """Build a conversation over a method.

    The graph takes `{"messages": […]}`. Its output has the answer as the last message, an `AIMessage` with
    citations as annotations, and beside it what the method gives; `question` is the question as it was
    restated, and `structured_response` the answer as a record.

    Args:
        name: The method, or its name.
        model: The model that answers, as for `build_graph`.
        restater: The model that restates follow-ups; None: `model`.
        checkpointer: Where LangGraph keeps threads; None: every input holds the full conversation.
        citations: Whether the sentences that support the answer are cited.
        prompts: Templates by name, instead of the method's, or `restate` (variables `history`, `question`).
        **method: More arguments of `build_graph`.

    Raises:
        UsageError: As `build_graph`.
        MissingExtraError: A model's packages are not installed.

    Examples:
        >>> chat = build_chat("concat", model=model, retriever=retriever)  # doctest: +SKIP
        >>> chat.invoke({"messages": [("user", "How many moons has Mars?")]})["messages"][-1].text  # doctest: +SKIP
        'two'
    """
    answering, own = chat_model(model), dict(prompts or {})
    restating = own.pop("restate", _RESTATE)
    graph = build_graph(name, model=answering, prompts=own, citations=citations, **method)
    return chat_over(graph, chat_model(restater or answering), prompt=restating, checkpointer=checkpointer)


def chat_over(
    graph: MethodGraph, restater: ChatModel, *, prompt: PromptText = _RESTATE, checkpointer: Checkpointer = None
) -> MethodGraph:
    """Put a compiled method, without a checkpointer of its own, into a conversation.

    A run's context sets the method's options; `prompt` is that of the restater.
    """
    components = Components(models=Models(restater=restater), prompts={"restate": template_of(prompt)})
    chat: Graph = StateGraph(
        ChatState, context_schema=graph.context_schema, input_schema=ChatInput, output_schema=ChatOutput
    )
    chat.set_node_defaults(retry_policy=RETRY)
    answering = _silent(graph, lambda state: {"question": state["question"]})
    nodes: list[Any] = [("restate", _silent(restate(components))), (graph.get_name(), answering), ("reply", reply)]
    chat.add_sequence([("turn", turn), *nodes])
    chat.add_edge(START, "turn")
    chat.add_edge("reply", END)
    return MethodGraph(**vars(chat.compile(checkpointer=checkpointer, name="chat")))
