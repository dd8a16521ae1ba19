"""Query rewriting: one call gives queries from the question and from the draft's claims.

Source: SlimPLM, section 3.3. The question itself is always searched; then its rewrites that need a
search; then the queries of the claims that are not known.
"""

from __future__ import annotations

import functools

from ragweave.nodes.ask import Ask, Prompt, Reply, Templates
from ragweave.nodes.judge import NecessityOptions, declines
from ragweave.nodes.proxy import EXAMPLE_QUESTION, EXAMPLE_REWRITE
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.nodes.step_grammars import QUESTIONS, RECORDS, rewrite_form
from ragweave.nodes.wording import worded
from ragweave.state import Claim, RAGState, Update
from ragweave.tools.bindings import unbound
from ragweave.tools.claims import (
    MAX_CHARACTERS,
    MAX_RECORDS,
    MAX_WORDS,
    Rewrite,
    parse_rewrite,
)
from ragweave.tools.models import ChatModel, Models
from ragweave.tools.models.tasks import Task
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.reply import cut_off
from ragweave.tools.text.unknown import is_unknown
from ragweave.tools.text.untrusted import untrusted

RECORD_TOKENS = 36
"""Tokens of a question or a claim with its marks and its query. Recorded rewrites of small models take
60 to 170 in all, about 30 a record; longer ones repeat themselves."""


def rewrite_step(
    models: Models, templates: Templates, options: NecessityOptions
) -> Step[RAGState, NecessityOptions]:
    """Return the node `rewrite`: sets `claims` and adds the question's rewrites to `queries`."""

    def prompt(state: RAGState, opts: NecessityOptions) -> Prompt:
        draft = state["heuristic_answer"]
        draft = "" if declines(draft, opts, models.by_role("rewrite")) else draft
        task: Task = {"task": "rewrite", "question": state["question"], "draft": draft}
        values = {"question": state["question"], "draft": untrusted(draft)}
        if opts.proxy_profile == "released":
            return Prompt(worded(templates, "rewrite_released", opts, answers=False), task, values)
        template = worded(templates, "rewrite", opts, answers=False)
        free = opts.paper or state["resolved_answer_type"] == "long"
        return Prompt(
            template,
            task,
            values,
            form=lambda _shown: rewrite_form(*form_limits(opts)),
            reply_tokens=None if free else RECORD_TOKENS * sum(form_limits(opts)),
        )

    def update(state: RAGState, reply: Reply, context: Context[NecessityOptions]) -> Update:
        read = parse_rewrite(reply.text, state["question"], _examples())
        read = read._replace(truncated=read.truncated or cut_off(reply.message))
        if held_by_grammar(models.by_role("rewrite"), context.options):
            note_full_form(reply.text, context)
        return rewritten(state, read, context)

    question = Ask[RAGState, NecessityOptions](
        name="rewrite", role="rewrite", prompt=prompt, update=update
    )
    return question.step(models, options)


def form_limits(options: NecessityOptions) -> tuple[int, int]:
    """Return the most questions and claims of the reply's form.

    The form's own bound small models that repeat themselves. A limit that the caller set may raise
    them, but lowers none: it counts what is searched, and the form all that is written.
    """
    own = {"max_rewrites": QUESTIONS, "max_claims": RECORDS}
    asked, claimed = (
        min(max(getattr(options, name), most), MAX_RECORDS) if name in options.given else most
        for name, most in own.items()
    )
    return asked, claimed


def held_by_grammar(model: ChatModel, options: NecessityOptions) -> bool:
    """Say whether the rewriter's reply is held to its form, which has a grammar alone."""
    free = options.constrain is False or options.proxy_profile == "released"
    return not free and getattr(unbound(model), "offers_grammar", False) is True


def note_full_form(reply: str, context: Context[NecessityOptions]) -> None:
    """Note where a reply has as many records as its form allows: the rest was not said."""
    for event, mark, most in zip(
        ("rewrites_cut", "claims_cut"),
        ("<Question(", "<Claim("),
        form_limits(context.options),
        strict=True,
    ):
        if reply.count(mark) >= most:
            context.note(event, allowed=most)


@functools.cache
def _examples() -> frozenset[str]:
    """Return what the prompt's example says: none of it is a claim or a query of this draft."""
    shown = parse_rewrite(EXAMPLE_REWRITE)
    texts = {one.claim for one in shown.claims} | {one.question for one in shown.questions}
    texts |= {one.query for one in shown.claims} | {one.query for one in shown.questions}
    return frozenset({*texts, EXAMPLE_QUESTION} - {""})


def rewritten(state: RAGState, read: Rewrite, context: Context[NecessityOptions]) -> Update:
    """Return the queries and claims of a rewriter's reply.

    What needs no search is left out, and so is a "claim" that only says that the draft's model did
    not know. Whatever was lost on the way is noted.
    """
    options = context.options
    telling = [one for one in read.claims if not is_unknown(one.claim)]
    searched = [one for one in telling if one.need_search and one.query]
    claims: list[Claim] = [
        {"key": f"claim_{index}", "claim": one.claim, "query": one.query}
        for index, one in enumerate(searched[: options.max_claims], start=1)
    ]
    asked = [one.query for one in read.questions if one.need_search and one.query]
    queries = {**state["queries"]}
    taken = asked[: options.max_rewrites]
    queries.update({f"rewrite_{index}": query for index, query in enumerate(taken, start=1)})
    lost = {
        **_lost_in_reading(read),
        "claim_unknown": {"claims": len(read.claims) - len(telling)},
        "no_claim_searched": {"claims": 0 if searched else len(telling)},
        "claims_cut": {"claims": len(searched) - len(claims), "kept": len(claims)},
        "rewrites_cut": {"rewrites": len(asked) - len(taken), "kept": len(taken)},
    }
    for event, detail in lost.items():
        if next(iter(detail.values())):
            context.note(event, **detail)
    return {"queries": queries, "claims": claims}


def _lost_in_reading(read: Rewrite) -> dict[str, dict[str, int]]:
    """Return what the parser lost, by the note's name; its first number is 0 where nothing was."""
    limits = {"words": MAX_WORDS, "characters": MAX_CHARACTERS}
    return {
        "rewrite_unparsed": {"replies": int(not read.parsed)},
        "rewrite_truncated": {"replies": int(read.truncated)},
        "records_dropped": {"records": read.dropped},
        "query_cut": {"texts": read.cut, **limits},
    }


def plan_step(options: NecessityOptions) -> Step[RAGState, NecessityOptions]:
    """Return the node `plan`: settles which queries are searched."""

    def body(state: RAGState, context: Context[NecessityOptions]) -> Work:
        return pure(plan(state, context))

    return Step("plan", body, options)


def plan(state: RAGState, context: Context[NecessityOptions]) -> Update:
    """Add the queries of the claims that are not known; say each query once.

    Where every claim is known, the question and its rewrites are all that is searched. That a
    question judged known comes here, because its direct answer was Unknown, is noted.
    """
    verdicts = state["verdicts"] if context.options.claim_filter else {}
    unknown = [one for one in state["claims"] if not verdicts.get(one["key"], False)]
    wanted = {**state["queries"], **{one["key"]: one["query"] for one in unknown}}
    queries: dict[str, str] = {}
    seen: set[str] = set()
    for key, query in wanted.items():
        text = normalize_answer(query) or query
        if text not in seen:
            queries[key] = query
        seen.add(text)
    if len(queries) < len(wanted):
        repeated = [key for key in wanted if key not in queries]
        context.note("queries_repeated", queries=repeated)
    if state.get("known"):
        context.note("known_but_unanswered")
    if state["claims"] and not unknown:
        context.note("all_claims_known", claims=len(state["claims"]))
    return {"queries": queries}
