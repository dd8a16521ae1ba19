"""Questions expanded by generated text, cut to length; the next query of ITER-RETGEN is one."""

from __future__ import annotations

from ragweave.nodes.options import OptionsT
from ragweave.nodes.replies import bare_text
from ragweave.nodes.rounds import round_key, search_for
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.nodes.vote import last_round, majority_vote, pool_of
from ragweave.state import RAGState, Update
from ragweave.tools.text.sentences import split_sentences
from ragweave.tools.text.unknown import is_unknown, knows_nothing

LONGEST = 2000
"""Characters of generated text that go into a query; the question stands behind them whole."""


def expand_query(question: str, text: str) -> tuple[str, int]:
    """Return `text ⊕ question` and the text's length before it was cut, in characters.

    Of a text that says that the model does not know, what its other sentences found out goes into
    the query; one that says nothing else, or is empty, leaves the question as it is.

    Source: BlendFilter, section 3.2 (`q_ex = a_ex ⊕ q`, whatever a_ex concludes).
    """
    plain = " ".join(bare_text(text).split())
    if is_unknown(plain):
        plain = "" if knows_nothing(plain) else telling(plain)
    if not plain:
        return question, 0
    return f"{cut(plain, LONGEST)} {question}", len(plain)


def telling(text: str) -> str:
    """Return a text's sentences, as one line, but for those that say "unknown": they name nothing."""
    said = (one.text for one in split_sentences(text) if not is_unknown(one.text))
    return " ".join(" ".join(said).split())


def cut(text: str, longest: int) -> str:
    """Return `text` cut at a word's end to at most `longest` characters."""
    if len(text) <= longest:
        return text
    head = text[: longest + 1].rpartition(" ")[0]
    return head or text[:longest]


def requery_step(pool: str, options: OptionsT) -> Step[RAGState, OptionsT]:
    """Return the node `requery`: starts a round whose query is the last round's text."""

    def body(state: RAGState, context: Context[OptionsT]) -> Work:
        return pure(requery(state, pool, context))

    return Step("requery", body, options)


def requery(state: RAGState, pool: str, context: Context[OptionsT]) -> Update:
    """Make the query `y ⊕ q`: what was generated comes first, then the question.

    A text of more than `LONGEST` characters is cut, noted `query_cut`.

    Source: Shao et al. 2023 (Enhancing Retrieval-Augmented Large Language Models with Iterative
    Retrieval-Generation Synergy), section 3.
    """
    number = state["round"] + 1
    text = generated(state, pool)
    query = f"{cut(text, LONGEST)} {state['question']}".strip()
    if len(text) > LONGEST:
        context.note("query_cut", query=round_key(number), characters=len(text))
    return {"round": number, **search_for(state, number, query)}


def generated(state: RAGState, pool: str) -> str:
    """Return the text behind the answer of the latest round, as one line.

    That is the whole reply whose answer wins the vote, but for its sentences that say "unknown".
    """
    candidates = last_round(pool_of(state, pool))
    winner = majority_vote(candidates, state["passages"])
    reply = next((one["reply"] for one in candidates if one["answer"] == winner), "")
    return telling(bare_text(reply))
