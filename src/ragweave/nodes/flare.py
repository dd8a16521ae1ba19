"""The step of FLARE: write on, and look up the first sentence that the model is unsure of."""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.errors import ModelError, UsageError
from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.flare_prompts import FORMS, go_on
from ragweave.nodes.flare_sentence import first_doubtful, masked
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.replies import parse_answer
from ragweave.nodes.rounds import (
    Loop,
    RoundOptions,
    conclude_chain,
    ids_of,
    refuse_samples,
    round_key,
    search_for,
)
from ragweave.nodes.step import Context, Step
from ragweave.state import RAGState, Update
from ragweave.tools.confidence import Token, gives_logprobs, token_probabilities
from ragweave.tools.models import ChatModel, Models

NAME = "flare"

_THOUGHT = "</think>"

LOOP = Loop(node=NAME, round=("retrieve", "collect"))


@dataclass(frozen=True, kw_only=True)
class FlareOptions(RoundOptions):
    """Options of `flare`."""

    threshold: float = 0.8
    """Token probability θ below which a sentence is looked up (Jiang et al. 2023)."""
    mask_below: float = 0.4
    """Token probability β below which a word is left out of the query (Jiang et al. 2023)."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        refuse_samples(self, NAME)
        for name in ("threshold", "mask_below"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} must be 0 to 1, not {getattr(self, name)}")


def flare_step(
    models: Models, templates: Templates, options: FlareOptions
) -> Step[RAGState, FlareOptions]:
    """Return the node `flare`: writes the answer to its end, keeps it up to the first doubt.

    The model writes on to the end each time and the sentences are looked at one by one. Up to the
    first doubt this gives, with greedy decoding, what writing sentence by sentence gives, in one
    call a round and not one a sentence. A sentence that was written anew with passages is taken as
    it is. Behind it this differs from the paper: there, the next tentative sentences are written
    without passages (section 3.2.1), while here the rest of the reply still has those passages in
    its prompt, so that it may be surer and be looked up less often. Writing the rest without them
    would cost a second call each round.

    Raises:
        UsageError: The answering model can't report log-probabilities.
    """
    check_model(models.by_role("answer"))

    def prompt(state: RAGState, opts: FlareOptions) -> Prompt:
        return flare_prompt(state, opts, templates)

    question = Ask[RAGState, FlareOptions](
        name=NAME, role="answer", prompt=prompt, update=flare_update
    )
    return question.step(models, options)


def check_model(model: ChatModel) -> None:
    """Raise `UsageError` unless `model` can report log-probabilities."""
    if not gives_logprobs(model):
        kind = getattr(model, "_llm_type", type(model).__name__)
        raise UsageError(
            f"flare needs the probability of each token, and the model {kind!r} reports none: "
            f"take model='openai:NAME' (any OpenAI-compatible server) or model='llamacpp:PATH'"
        )


def flare_prompt(state: RAGState, _options: FlareOptions, templates: Templates) -> Prompt:
    """Ask for the rest of the answer, from what the doubtful sentence found, if there is one."""
    passages = state["passages"] if state["round"] else []
    return Prompt(
        templates["flare_passages" if passages else "flare"],
        {
            "task": "reason",
            "question": state["question"],
            "answer_type": state["resolved_answer_type"],
        },
        {
            "question": state["question"],
            "answer_form": FORMS[state["resolved_answer_type"]],
            "written": go_on(state["written"]),
        },
        passages,
        {"logprobs": True},
    )


def flare_update(state: RAGState, reply: Reply, context: Context[FlareOptions]) -> Update:
    """Keep what is sure and start the search for the first doubt; else end with the answer."""
    options, number, text = context.options, state["round"], reply.text
    read = [*state["read"], *ids_of(reply.passages)]
    tokens = _tokens(reply)
    begin = _begin(text, state["written"])
    doubt = first_doubtful(text, tokens, options.threshold, begin=begin, trusted=1 if number else 0)
    if doubt is not None and not LOOP.is_last(state, done=number, most=options.rounds):
        query = masked(doubt, tokens, options.mask_below)
        if not query:
            context.note("query_all_masked", sentence=doubt.text)
        kept = _joined(state["written"], text[begin : doubt.start])
        search = search_for(state, number, query or state["question"])
        return {"written": kept, "round": number + 1, "read": read, **search}
    written = _joined(state["written"], text[begin:])
    end = conclude_chain(
        state,
        options,
        pool=NAME,
        answer=parse_answer(written, state["resolved_answer_type"]),
        reply=written,
        keys=map(round_key, range(number)),
        read=read,
        truncated=doubt is not None,
    )
    return {**end, "written": written}


def _begin(text: str, written: str) -> int:
    """Return where the new part of a reply begins: behind thoughts and what it says again."""
    thought = text.rfind(_THOUGHT) + len(_THOUGHT) if _THOUGHT in text else 0
    spoken = text[thought:]
    again = spoken.lstrip().startswith(written)
    return thought + (len(spoken) - len(spoken.lstrip()) + len(written) if again else 0)


def _tokens(reply: Reply) -> list[Token]:
    if reply.message is None or not reply.text:
        return []
    tokens = token_probabilities(reply.message, reply.text)
    if tokens is None:
        raise ModelError(
            "flare needs the probability of each token, and the reply has none: the server "
            "ignores logprobs=True; use one that reports log-probabilities"
        )
    return tokens


def _joined(written: str, more: str) -> str:
    return f"{written} {more.strip()}".strip()
