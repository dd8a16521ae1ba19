"""The contract of a method: what every graph of ours keeps, whatever its paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar
from unittest import SkipTest

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError

from ragweave.graphs import METHODS, Method
from ragweave.testing.cases import CARDS, OptionCase, Setting, accepted, cases_of, declared_calls
from ragweave.testing.checks import MARK, carried_on, given, plain, said, well_formed
from ragweave.testing.harness import (
    WAYS,
    Harness,
    Run,
    as_json,
    asked_for,
    costs_by,
    final_state,
    ledger,
    misread,
    reads_as,
    tokens,
)
from ragweave.testing.scripted import ForeignRetriever, ModelCall, Record, Said, Script
from ragweave.tools.drawing import draw_svg, shape_of

NONE: Mapping[str, Any] = MappingProxyType({})

_ODD = {
    "empty": "",
    "blank": " \n\t ",
    "unreadable": '}]> zqxv1 "ids": [[ <Known(Tr zqxv2',
    "garbled": "\x00\ufffd zqxv3 \\u{0} <passage 1> </passage> %s {0} zqxv4\n" * 3,
    "endless": "zqxv5 zqxv6 zqxv7 " * 300,
    "echoed": "<passage 1>",
}


class MethodTests:
    """What a method must keep. Subclass it once a method; pytest finds the rest.

    A subclass names the method and gives a script that leads it to the answer:

        class TestConcat(MethodTests):
            method = "concat"
            replies = ["Ada Brenner"]

    All else is derived; `option_cases` and `idle_options` name options that show rarely or never.
    """

    method: str | Method
    """The method, by name or as an object."""
    replies: Script = ()
    """Replies by node or in order; for a function of the call, override `reply` instead."""
    question: str = "Who built the bridge at Alden?"
    answer: str = "Ada Brenner"
    """The answer that the script leads to."""
    other_question: str = "Which river runs under the bridge at Alden?"
    """What a thread is asked first, where the question comes second."""
    documents: Sequence[Document] = CARDS
    """Passages to find. No reply may repeat a whole sentence of them."""
    setting: Setting = Setting()
    """How the method is built in every run, where its defaults will not do."""
    option_cases: Mapping[str, OptionCase] = NONE
    """Cases at which options show that take more than another value."""
    idle_options: Mapping[str, str] = NONE
    """Options that can't have an effect in this method, and why; held to have none."""
    cut_short: Setting | None = None
    """A setting whose limit ends the script's run before its answer; None: no option does."""
    more_settings: Sequence[Setting] = ()
    """More settings in which passages, usage and prompts are looked at, such as other verdicts."""
    cost_names: Mapping[str, float] = NONE
    """Values of names in the declared costs that are no options."""

    _runs: ClassVar[list[tuple[Setting, Run]]]

    def __init_subclass__(cls, **more: Any) -> None:
        """Give each subclass runs of its own."""
        super().__init_subclass__(**more)
        cls._runs = []

    def reply(self, call: ModelCall) -> Said:
        """Return what a model replies to a call; `replies` takes its place where given."""
        raise NotImplementedError(f"{type(self).__name__} needs replies, or a reply method")

    # -- what it answers -----------------------------------------------------------------------

    def test_the_script_leads_to_the_answer(self) -> None:
        """The method gives the expected answer, and the whole output."""
        run = self.run()
        assert run.output["question"] == self.question
        assert (run.output["answer"], run.output["status"]) == (self.answer, "answered")
        well_formed(run)

    def test_passages_are_what_the_final_prompts_showed(self) -> None:
        """The final passages are those that the winning candidates were read from."""
        for run in self.finished():
            problem = misread(run.output, run.calls, given(run) or self.documents)
            assert not problem, f"{said(run)}: {problem}"

    def test_truncated_tells_whether_a_limit_ended_the_run(self) -> None:
        """`truncated` is true where a limit ended the run, and nowhere else."""
        free = self.run()
        assert free.output["truncated"] is False, "truncated, though the script came to its end"
        for limit in range(self._supersteps(), 0, -1):
            config = {"recursion_limit": limit}
            try:
                run = self.harness().run(self.setting, config=config)
            except GraphRecursionError:
                break
            assert run.output["truncated"] is (run.asked != free.asked), f"recursion limit {limit}"
        if self.cut_short is not None:
            run = self.run(self.setting.joined(self.cut_short))
            assert run.output["truncated"] is True, f"truncated is not true under {said(run)}"

    def test_sync_equals_async_equals_stream(self) -> None:
        """All four ways to run a graph ask the same and give the same."""
        expected = self.run()
        for name, way in WAYS.items():
            run = self.harness().run(self.setting, invoke=way)
            assert run.prompts == expected.prompts, f"{name} asks otherwise than stream"
            assert run.output == expected.output, f"{name} gives something else than stream"

    def test_the_second_question_of_a_thread_starts_clean(self) -> None:
        """Nothing of a thread's first question shows in its second."""
        passages = {"passages": list(self.documents[:2])}
        firsts: list[dict[str, Any]] = [
            {"question": self.other_question},
            {"question": self.question, **passages, "answer_type": "long"},
        ]
        expected = self._turn(InMemorySaver(), {})
        for first in firsts:
            saver = InMemorySaver()
            self._turn(saver, first)
            run = self._turn(saver, {})
            assert run.prompts == expected.prompts, f"after {sorted(first)} it asks otherwise"
            assert run.output == expected.output, f"after {sorted(first)} it gives something else"
            assert run.unstepped == expected.unstepped, "the state keeps something"

    def test_usage_counts_the_calls_made(self) -> None:
        """Calls, tokens and retrievals, in all, by role and by node, are those really made."""
        for run in self.finished():
            usage, scored = run.output["usage"], run.scored
            made = tokens(run.calls, scored)
            assert ledger([usage]) == made, f"{said(run)}: usage is off in all"
            nodes = ledger(list(usage["by_node"].values()))
            assert nodes == made, f"{said(run)}: usage is off in by_node"
            for table, key in (("by_role", "role"), ("by_node", "node")):
                if table == "by_node" and scored:
                    continue  # a scorer does not know which node asks it
                counted = {key: ledger([one]) for key, one in usage[table].items() if one["calls"]}
                assert counted == costs_by(key, run), f"{said(run)}: usage is off in {table}"
            assert usage["retrievals"] == len(run.record.searches), f"{said(run)}: retrievals"
            assert usage["estimated"] is bool(scored), "usage is estimated, though the models count"

    def test_calls_lie_within_the_declared_costs(self) -> None:
        """The run makes no fewer calls than the best case and no more than the worst."""
        run, method = self.run(), self._method()
        least, most = self._declared(method.best), self._declared(method.worst)
        if least is None and most is None:
            raise SkipTest(f"costs that can't be computed: {method.best}; {method.worst}")
        assert least is None or least <= len(run.calls), f"{len(run.calls)} calls, best {least}"
        assert most is None or len(run.calls) <= most, f"{len(run.calls)} calls, worst {most}"

    def test_calls_are_made_in_the_declared_roles(self) -> None:
        """Every call is the answering model's, or of a role that the method names."""
        for run in self.finished():
            method = self._method()
            declared = {"answer", *method.roles(method.options(**run.setting.options))}
            made = {call.role for call in run.calls}
            assert made <= declared, f"{said(run)}: asks in roles it does not name: {made}"

    # -- options and prompts -------------------------------------------------------------------

    def test_every_option_does_something(self) -> None:
        """Each option changes prompts, calls or output, or is declared idle, with the reason."""
        names = [one.name for one in dataclasses.fields(self._method().options)]
        unknown = set(self.idle_options) | set(self.option_cases)
        assert unknown <= set(names), f"no such option: {sorted(unknown - set(names))}"
        dead = [name for name in names if not self._shows(name)]
        assert sorted(dead) == sorted(self.idle_options), (
            f"options without effect: {dead}; declared idle: {sorted(self.idle_options)}"
        )

    def test_an_option_of_a_run_is_that_of_the_build(self) -> None:
        """`context={name: value}` does in a run what the option does where the method is built."""
        for name in (one.name for one in dataclasses.fields(self._method().options)):
            for setting, case in self._taken(name):
                built = self.run(setting.with_options(**{name: case.value}))
                if built.error is not None or built.trace == self.run(setting).trace:
                    continue
                told = partial(final_state, context={name: case.value})
                run = self.harness().run(setting, invoke=told)
                assert run.trace == built.trace, f"{name}={case.value!r} of a run is passed over"
                break

    def test_a_callers_prompts_replace_the_methods(self) -> None:
        """Each of the method's prompts reaches a model in the caller's wording."""
        marked = {
            name: ChatPromptTemplate([("system", f"{MARK}-{name}-"), *template.messages])
            for name, template in self._method().prompts.items()
        }
        missing, settings = set(marked), list(self.settings())
        for setting in asked_for(missing, settings, self._likely):
            run = self.harness().run(setting, prompts=marked)
            texts = "\n".join(call.text for call in run.calls)
            missing -= {name for name in missing if f"{MARK}-{name}-" in texts}
        assert not missing, f"prompts that no run used: {sorted(missing)}"

    # -- what goes wrong, and what comes along -------------------------------------------------

    def test_odd_replies_never_raise(self) -> None:
        """An empty or unreadable reply gives Unknown, or an answer with a note.

        No note is due where the reply went on as plain text: into a prompt, a query or an answer.
        What is asked again counts towards the declared worst case.
        """
        most = self._declared(self._method().worst)
        nodes = sorted({call.node for call in self.run().calls})
        for kind, text in _ODD.items():
            for node in ["", *(nodes if kind in ("empty", "unreadable") else ())]:
                setting = dataclasses.replace(self.setting, replies=self._odd(node, text))
                run = self.harness().run(setting)
                where = f"{kind} reply of {node or 'every node'}"
                assert run.error is None, f"{where}: {run.error}"
                well_formed(run)
                made = len(run.calls)
                assert most is None or made <= most, f"{where}: {made} calls, worst {most}"
                used = MARK in text and carried_on(run)
                quiet = run.output["status"] == "answered" and not run.state["notes"] and not used
                assert not quiet, f"{where}: an answer without a note"

    def test_given_passages_take_the_place_of_retrieval(self) -> None:
        """Passages in the input are read and nothing is retrieved, with a retriever or without."""
        for parts in ({}, {"retriever": None}):
            setting = dataclasses.replace(_given(self), parts={**self.setting.parts, **parts})
            run = self.run(setting)
            assert run.error is None, str(run.error)
            assert not run.record.searches, f"retrieved {run.record.searches}"
            assert run.output["usage"]["retrievals"] == 0
            assert {doc.id for doc in run.output["passages"]} <= {doc.id for doc in given(run)}
            well_formed(run)

    def test_any_retriever_will_do(self) -> None:
        """A LangChain retriever that finds more than `k` passages is cut to `k`."""
        foreign = dataclasses.replace(
            self.harness(), retriever=lambda own: ForeignRetriever(own=own)
        )
        run = foreign.run(self.setting)
        assert run.prompts == self.run().prompts
        assert as_json(run.output) == as_json(self.run().output)

    def test_nothing_found_is_no_error(self) -> None:
        """Where no passage is found the run ends as any other."""
        run = self.run(self.setting.joined(Setting(finds=False)))
        assert run.error is None, str(run.error)
        assert run.output["passages"] == []
        well_formed(run)

    def test_the_output_is_plain_json(self) -> None:
        """The output and the whole state hold JSON values and documents alone."""
        for run in self.finished():
            plain(run.state)

    def test_the_graph_draws(self) -> None:
        """The graph has a picture, in which no node stands alone."""
        graph = self.harness().build(self.setting, Record())
        shape = graph.get_graph()
        linked = {end for edge in shape.edges for end in (edge.source, edge.target)}
        assert linked == set(shape.nodes), f"not linked: {set(shape.nodes) - linked}"
        assert all(name in shape.draw_mermaid() for name in shape.nodes)
        assert draw_svg(shape_of(shape), title=self._method().name).startswith("<svg")

    # -- how it is run -------------------------------------------------------------------------

    def harness(self) -> Harness:
        """Return what builds and runs the method."""
        script = self.replies or self.reply
        return Harness(
            method=self._method(),
            script=script,
            question=self.question,
            documents=self.documents,
        )

    def run(self, setting: Setting | None = None) -> Run:
        """Run the method once in a setting; a second time in the same one gives the same run."""
        chosen = self.setting if setting is None else setting
        for held, run in self._runs:
            if held == chosen:
                return run
        done = self.harness().run(chosen)
        self._runs.append((chosen, done))
        return done

    def settings(self) -> Iterator[Setting]:
        """Yield the setting itself, those that were added, and some for each option.

        For an option of words they are all words, for any other one value.
        """
        yield self.setting
        yield from (self.setting.joined(one) for one in self.more_settings)
        yield self.setting.joined(Setting(finds=False))
        yield _given(self)
        options = self._method().options
        for field in dataclasses.fields(options):
            settings = [
                (
                    case.value,
                    self.setting.joined(case.setting).with_options(**{field.name: case.value}),
                )
                for case in cases_of(options, field.name, self.option_cases)
            ]
            taken = [(value, one) for value, one in settings if accepted(options, one.options)]
            words = [one for value, one in taken if isinstance(value, str | tuple)]
            yield from words or [one for _value, one in taken[:1]]

    def finished(self) -> Iterator[Run]:
        """Yield the runs in every setting that came to an end."""
        base = self.run()
        assert base.error is None, str(base.error)
        yield from (run for run in map(self.run, self.settings()) if run.error is None)

    def _likely(self, prompt: str) -> Iterator[Setting]:
        """Yield settings in which the method's wording of a prompt is met: one a set of nodes."""
        template = self._method().prompts.get(prompt, ChatPromptTemplate([]))
        met: set[frozenset[str]] = set()
        for run in self.finished():
            nodes = frozenset(call.node for call in run.calls)
            if nodes not in met and any(reads_as(template, call.text) for call in run.calls):
                met.add(nodes)
                yield run.setting

    def _supersteps(self) -> int:
        """Return how many supersteps the run takes."""
        graph = self.harness().build(self.setting, Record())
        given = self.harness().given(self.setting)
        return len(list(graph.stream(given, stream_mode="values")))

    def _declared(self, cost: str) -> float | None:
        options = self._method().options(**self.setting.options)
        return declared_calls(cost, options, self.cost_names)

    def _method(self) -> Method:
        return METHODS[self.method] if isinstance(self.method, str) else self.method

    def _shows(self, name: str) -> bool:
        """Say whether an option has an effect at any of its cases, or takes no other value."""
        taken = False
        for base, case in self._taken(name):
            taken, run = True, self.run(base.with_options(**{name: case.value}))
            if (run.error is None or case.raises) and run.trace != self.run(base).trace:
                return True
        return not taken and any(cases_of(self._method().options, name, self.option_cases))

    def _taken(self, name: str) -> Iterator[tuple[Setting, OptionCase]]:
        """Yield an option's cases, each with its setting, whose values the method takes."""
        options = self._method().options
        for case in cases_of(options, name, self.option_cases):
            base = self.setting.joined(case.setting)
            other = base.with_options(**{name: case.value})
            if accepted(options, base.options) and accepted(options, other.options):
                yield base, case

    def _odd(self, node: str, text: str) -> Script:
        """Return the script with `text` in the place of a node's replies, or of all."""
        script, record = self.setting.replies or self.replies or self.reply, Record()

        def reply(call: ModelCall) -> Said:
            said = record.reply(script, call)
            return text if node in ("", call.node) else said

        return reply

    def _turn(self, saver: InMemorySaver, given: Mapping[str, Any]) -> Run:
        """Ask one question in the saver's thread, by a graph built anew."""
        run, harness = Run(self.setting, Record()), self.harness()
        graph = harness.build(self.setting, run.record, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "contract"}}
        graph.invoke({**harness.given(self.setting), **given}, config)
        run.state = graph.get_state(config).values
        return run


def _given(tests: MethodTests) -> Setting:
    passages = [
        doc.model_copy(update={"id": f"given{n}"}) for n, doc in enumerate(tests.documents[:3])
    ]
    return tests.setting.joined(Setting(input={"passages": passages}))
