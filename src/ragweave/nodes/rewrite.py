"""Query rewriting: one call gives queries from the question and from the draft's claims.

Source: SlimPLM, section 3.3. The question itself is always searched; then its rewrites that need a
search; then the queries of the claims that are not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.nodes.ask import Ask, Reply, ask
from ragweave.nodes.necessity import NecessityOptions
from ragweave.nodes.notes import note
from ragweave.nodes.options import OptionsT
from ragweave.nodes.prompt import Prompt, Templates
from ragweave.nodes.step import Step, Work, pure
from ragweave.state import Claim, Note, Update
from ragweave.tools.claims import (
    MAX_CHARACTERS,
    MAX_RECORDS,
    MAX_WORDS,
    Rewrite,
    parse_rewrite,
)
from ragweave.tools.models import Models
from ragweave.tools.tasks import Task
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import is_unknown


def rewrite_step(models: Models, templates: Templates, options: OptionsT) -> Step[OptionsT]:
    """Return the node `rewrite`: sets `claims` and adds the question's rewrites to `queries`."""

    def prompt(state: Mapping[str, Any], opts: Any) -> Prompt:
        draft = state["heuristic_answer"]
        task: Task = {"task": "rewrite", "question": state["question"], "draft": draft}
        values = {"question": state["question"], "draft": draft}
        name = "rewrite_released" if opts.proxy_profile == "released" else "rewrite"
        return Prompt(templates[name], task, values)

    def update(state: Mapping[str, Any], _opts: Any, reply: Reply) -> Update:
        return {"read": parse_rewrite(reply.text, state["question"])}

    question = Ask[OptionsT](name="rewrite", role="rewrite", prompt=prompt, update=update)

    def body(state: Mapping[str, Any], opts: OptionsT, config: RunnableConfig) -> Work:
        told = yield from ask(question, models, state, opts, config)
        own = rewritten(state, told.pop("read"), opts, config)
        return {**told, **own, "notes": [*told["notes"], *own["notes"]]}

    return Step("rewrite", body, options)


def rewritten(
    state: Mapping[str, Any], read: Rewrite, options: Any, config: RunnableConfig
) -> Update:
    """Return the queries and claims of a rewriter's reply.

    What needs no search is left out, and so is a "claim" that only says that the draft's model did
    not know.
    """
    notes: list[Note] = []
    if not read.parsed:
        notes.append(note(config, "rewrite", "rewrite_unparsed"))
    telling = [one for one in read.claims if not is_unknown(one.claim)]
    if len(telling) < len(read.claims):
        notes.append(note(config, "rewrite", "claim_unknown"))
    searched = [one for one in telling if one.need_search and one.query]
    if len(searched) > options.max_claims or len(read.claims) >= MAX_RECORDS:
        notes.append(
            note(config, "rewrite", "claims_cut", claims=len(searched), kept=options.max_claims)
        )
    claims: list[Claim] = [
        {"key": f"claim_{at}", "claim": one.claim, "query": one.query}
        for at, one in enumerate(searched[: options.max_claims], start=1)
    ]
    asked = [one.query for one in read.questions if one.need_search and one.query]
    if any(map(_cut, [*asked, *(one.query for one in searched)])):
        notes.append(note(config, "rewrite", "query_cut", characters=MAX_CHARACTERS))
    queries = {**state["queries"]}
    queries.update({f"rewrite_{at}": query for at, query in enumerate(asked, start=1)})
    return {"queries": queries, "claims": claims, "notes": notes}


def _cut(query: str) -> bool:
    """Say whether the parser has (as its limits tell) cut this query short."""
    return len(query.split()) >= MAX_WORDS or len(query) >= MAX_CHARACTERS


def plan_step(options: OptionsT) -> Step[OptionsT]:
    """Return the node `plan`: settles which queries are searched."""

    def body(state: Mapping[str, Any], opts: Any, config: RunnableConfig) -> Work:
        return pure(plan(state, opts, config))

    return Step("plan", body, options)


def plan(state: Mapping[str, Any], options: NecessityOptions, config: RunnableConfig) -> Update:
    """Add the queries of the claims that are not known; say each query once.

    Where every claim is known, the question and its rewrites are all that is searched.
    """
    verdicts = state["verdicts"] if options.claim_filter else {}
    unknown = [one for one in state["claims"] if not verdicts.get(one["key"], False)]
    wanted = {**state["queries"], **{one["key"]: one["query"] for one in unknown}}
    queries: dict[str, str] = {}
    seen: set[str] = set()
    for key, query in wanted.items():
        text = normalize_answer(query) or query
        if text not in seen:
            queries[key] = query
        seen.add(text)
    notes: list[Note] = []
    if len(queries) < len(wanted):
        repeated = [key for key in wanted if key not in queries]
        notes.append(note(config, "plan", "queries_repeated", queries=repeated))
    if state["claims"] and not unknown:
        notes.append(note(config, "plan", "all_claims_known", claims=len(state["claims"])))
    return {"queries": queries, "notes": notes}
