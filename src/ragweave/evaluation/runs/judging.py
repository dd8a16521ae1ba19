"""The judge of a run: asks a model what the judged metrics want to know of an answer.

Its calls pass the run's call broker as a method's do: they are kept at once, replayed after a
restart, shared by the cache, and counted, in a role of their own. They are retried as a node's are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS, Judgement, JudgeQuestion, Judging, Metric
from ragweave.nodes.ask import Prompt, Reply, reply_to
from ragweave.nodes.ask import Question as NodeQuestion
from ragweave.nodes.options import Options
from ragweave.nodes.step import Call, Context, Step, Work
from ragweave.state import Update
from ragweave.tools.models import ChatModel, Models
from ragweave.tools.models.specs import is_part_spec
from ragweave.tools.text.secrets import redacted

_OPTIONS = Options()


class _State(TypedDict, total=False):
    asked: Question
    answered: Mapping[str, Any]
    judgement: Judgement


class _Update(Update, total=False):
    judgement: Judgement


class AnswerJudge:
    """Asks a model about an answer, for each judged metric of a run."""

    def __init__(
        self, model: ChatModel, metrics: Sequence[Metric], options: Options = _OPTIONS
    ) -> None:
        """Take the model, and the metrics of which some are judged.

        Args:
            model: The judge.
            metrics: The metrics of a run.
            options: Of them, `constrain` and the limits of prompts and replies hold.
        """
        self._models = Models(answer=model)
        self._options = options
        self._graphs = {
            metric: self._graph(metric) for metric in metrics if metric.judge is not None
        }

    async def judge(
        self,
        question: Question,
        state: Mapping[str, Any],
        config: RunnableConfig | None = None,
    ) -> dict[str, Judgement]:
        """Return what the judge says, by the metric's name; what does not apply is left out.

        Args:
            question: The question with its gold.
            state: The final state of the graph that answered it.
            config: The configuration of its calls, such as the question's thread.
        """
        said: dict[str, Judgement] = {}
        for metric, graph in self._graphs.items():
            done = await graph.ainvoke({"asked": question, "answered": state}, config)
            if "judgement" in done:
                said[metric.name] = done["judgement"]
        return said

    def _graph(self, metric: Metric) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return a graph of one node, for its retries."""

        def body(state: _State, context: Context[Options]) -> Work:
            judging = metric.judge and metric.judge(state["asked"], state["answered"])
            if judging is None:
                return {}
            update: _Update = {
                "judgement": (yield from judgement_of(judging, self._models, context))
            }
            return update

        graph: StateGraph[Any, Any, Any, Any] = StateGraph(_State)
        step = Step[Any, Options](metric.name, body, self._options)
        graph.add_node("judge", step, retry_policy=self._models.retry)
        graph.add_edge(START, "judge")
        graph.add_edge("judge", END)
        return graph.compile()


def judgement_of(
    judging: Judging, models: Models, context: Context[Options]
) -> Generator[Call, Any, Judgement]:
    """Ask what a metric wants to know, and return its judgement."""
    reply: Reply | None = None
    while True:
        try:
            asked = judging.send(reply) if reply is not None else next(judging)
        except StopIteration as end:
            judgement: Judgement = end.value
            return judgement
        reply = yield from reply_to(_question(context.node, asked), models, {}, context)


def _question(name: str, asked: JudgeQuestion) -> NodeQuestion[Any, Options]:
    prompt = Prompt(
        asked.template,
        {"task": "grade", "question": asked.values.get("question", "")},
        asked.values,
        asked.passages,
        render=asked.render,
        form=asked.form,
        reply_tokens=asked.reply_tokens,
    )
    return NodeQuestion(name=name, role="answer", prompt=lambda _state, _options: prompt)


def check_judge(judge_model: str, metrics: Sequence[Metric], *, named: bool) -> None:
    """Refuse a judged metric without a judge, and a judge without anything to judge.

    Args:
        judge_model: The judge's spec; "": there is none.
        metrics: What is computed.
        named: Whether the metrics were named; else those without a judge are left out.

    Raises:
        UsageError: One is there without the other, or the model cannot judge.
    """
    judged = [one.name for one in metrics if one.judge is not None]
    if named and judged and not judge_model:
        raise UsageError(
            f"the metric {judged[0]!r} is judged by a model: name one with --judge-model"
        )
    if not judge_model:
        return
    shown = f"--judge-model {redacted(judge_model)}"
    if not judged:
        listed = ", ".join(one.name for one in METRICS.ours() if one.judge is not None)
        raise UsageError(
            f"{shown}: none of these metrics is judged by a model; add some of {listed} to "
            "--metrics, or leave --metrics out"
        )
    if judge_model.partition("?")[0].strip() == "extractive" or is_part_spec(judge_model):
        raise UsageError(f"{shown}: is no language model, and judges nothing")
