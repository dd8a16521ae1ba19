"""Prompts rewritten by gepa (Agrawal et al. 2025, arXiv 2507.19457), whose package needs no other.

What is rewritten is the **system turn** of a prompt: it has no placeholders, so no proposal can lose `{passages}` or the
clause on Unknown, which methods route on. What went wrong with an answer is said by `why.py`: only where the passage was
read can another prompt help.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from statistics import fmean
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from ragweave.datasets import Question
from ragweave.errors import UsageError, need
from ragweave.evaluation.evaluate import EVALUATOR, library_of, open_priced
from ragweave.evaluation.folder import Record
from ragweave.evaluation.tune import Arm, Tuning, paired
from ragweave.evaluation.why import Library, explain
from ragweave.graphs.specs import read_system
from ragweave.nodes.prompts import template_of

Texts = dict[str, str]
"""System turns by the names of their prompts."""
Turns = Mapping[str, Sequence[tuple[str, str]]]
"""Each prompt's roles and texts."""
MAX_ANSWERS = 200
"""Answers that gepa may use."""
MIN_REFLECTOR = 7
"""Billions of parameters below which a model is said to write poor prompts."""
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)


def reflector_of(models: Mapping[str, Any]) -> tuple[str, str]:
    """Return the role whose model rewrites prompts, the evaluator's or the generator's, and a warning if it is small.

    Raises:
        UsageError: The model doesn't write.
        MissingExtraError: gepa is not installed.
    """
    need("ragweave tune --prompts auto", "tune", "gepa")
    role = EVALUATOR if EVALUATOR in models else "generator"
    name = str(models[role])
    if name.startswith("extractive"):
        raise UsageError("extractive doesn't write prompts: name a chat model, --model evaluator=SPEC")
    sizes = [float(size) for size in _SIZE.findall(name)]
    is_small = bool(sizes) and max(sizes) < MIN_REFLECTOR
    return role, f"{name} is small: below {MIN_REFLECTOR}B, rewritten prompts are rarely better" * is_small


def turns_of(spec: str, own: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return the turns of a method's prompts, with the caller's own in their place."""
    system = read_system(spec)
    templates = {name: text for name, text in system.method.prompts.items() if "@" not in name}
    templates |= {name: template_of(text) for name, text in {**system.prompts, **own}.items()}
    return {
        name: [
            (type(turn).__name__.removesuffix("MessagePromptTemplate").lower(), turn.prompt.template)  # type: ignore[union-attr]
            for turn in template.messages
        ]
        for name, template in templates.items()
    }


def with_texts(turns: Turns, texts: Texts) -> dict[str, list[list[str]]]:
    """Return prompts with their system turns replaced; braces in them are text."""
    safe = {name: text.replace("{", "{{").replace("}", "}}") for name, text in texts.items()}
    return {name: [["system", safe[name]], *map(list, turns[name][1:])] for name in texts}


@dataclass
class GraphAdapter:
    """What gepa asks of us: to score texts on questions, and to say what was wrong."""

    tuning: Tuning
    arm: Arm
    turns: Turns
    loop: asyncio.AbstractEventLoop
    library: Library | None
    propose_new_texts = None

    def worded(self, texts: Texts) -> Arm:
        """Return the arm with these texts, under a name of their own."""
        name = "gepa-" + sha256(repr(sorted(texts.items())).encode(errors="replace")).hexdigest()[:8]
        self.tuning.wordings[name] = {**self.tuning.wordings.get(self.arm.wording, {}), **with_texts(self.turns, texts)}
        return Arm(self.arm.system, name)

    def evaluate(self, batch: list[str], candidate: Texts, capture_traces: bool = False) -> Any:
        """Answer questions, in the run's event loop; one that fails scores 0."""
        from gepa.core.adapter import EvaluationBatch

        arm = self.worded(candidate)
        asyncio.run_coroutine_threadsafe(self.tuning.ask([arm], batch), self.loop).result()
        questions = self.tuning.questions
        records = {record["id"]: record for record in self.tuning.records if record["system"] == arm.name}
        outputs = [records[questions[name].id] for name in batch]
        scores = [record["scores"].get(self.tuning.metric.name, 0.0) for record in outputs]
        asked = [(questions[name], record) for name, record in zip(batch, outputs, strict=True)]
        return EvaluationBatch(outputs, scores, trajectories=asked if capture_traces else None)

    def make_reflective_dataset(self, candidate: Texts, batch: Any, components: list[str]) -> dict[str, list[Any]]:
        """Return what the reflecting model reads of each answer: question, passages, and why it was wrong."""
        del candidate
        rows = [
            {
                "Inputs": {
                    "question": question.question,
                    "passages": " ".join(passage["text"] for passage in record.get("passages", ()))[:2000],
                },
                "Generated Outputs": record.get("answer", ""),
                "Feedback": feedback(question, record, score, self.library),
            }
            for (question, record), score in zip(batch.trajectories or (), batch.scores, strict=True)
        ]
        return dict.fromkeys(components, rows)


def feedback(question: Question, record: Record, score: float, library: Library | None) -> str:
    """Say what was wrong with an answer: which stage lost it, and at which rank its passage was."""
    if score == 1 or record["error"] or not question.answers:
        return "Right." if score == 1 else f"It scored {score:.2f} of 1."
    right = " or ".join(question.answers[:3])
    state = {
        **record,
        "passages": [Document(passage["text"], id=passage["id"]) for passage in record["passages"]],
        "retrieved": {query: [Document("", id=name) for name in ids] for query, ids in record["retrieved"].items()},
    }
    finding = explain(question, state, library) if library else None
    if finding is None:
        return f"The right answer is {right}. The answer scored {score:.2f} of 1: say that, and nothing else."
    blame = (
        "" if finding.stage in ("reading", "refusal", "vote") else " No prompt could have answered: Unknown is right."
    )
    return f"The right answer is {right}. {finding}{blame}"


async def rewrite(tuning: Tuning, arm: Arm, names: Sequence[str]) -> Arm:
    """Return an arm with the best prompts that gepa found, or the arm itself if none does better on all questions."""
    from gepa.api import optimize

    role, _ = reflector_of(tuning.settings.models)
    model = open_priced(tuning.settings, role, tuning.players[role], tuning.run)
    turns = turns_of(arm.system, tuning.wordings.get(arm.wording, {}))
    used = {
        node
        for record in tuning.records
        if record["system"] == arm.name and not record["error"]
        for node in record["usage"]["by_node"]
    }
    first = {name: turns[name][0] for name in turns if name in used}
    seed = {name: text for name, (kind, text) in first.items() if kind == "system" and "{" not in text}
    if not seed:
        return arm
    library = library_of(tuning.settings, read_system(arm.system).retriever or tuning.settings.retriever)
    adapter: Any = GraphAdapter(tuning, arm, turns, asyncio.get_running_loop(), library)
    search = partial(
        optimize,
        seed_candidate=seed,
        trainset=[*names],
        valset=[*names],
        adapter=adapter,
        reflection_lm=lambda prompt: str(model.invoke([HumanMessage(str(prompt))]).text),
        max_metric_calls=MAX_ANSWERS,
        logger=_Quiet(),
        raise_on_exception=True,
    )
    result: Any = await asyncio.to_thread(search)
    if result.best_candidate == seed:
        return arm
    best = adapter.worded(result.best_candidate)
    await tuning.ask([best, arm], names)
    ours, theirs = (fmean(answer.score for answer in answers) for answers in paired(tuning, best, arm, names))
    return best if ours > theirs else arm


class _Quiet:
    """gepa's log."""

    def log(self, message: str) -> None:
        """Show nothing."""
