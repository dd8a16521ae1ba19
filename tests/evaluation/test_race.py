"""The race and its test, on made-up answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random

from ragweave.evaluation.race import Answer, Goal, block_sizes, confirm, detectable, needed, race

QUESTIONS = [str(number) for number in range(64)]
ARMS = ["base", *(f"arm{number}" for number in range(15))]
Table = dict[str, dict[str, Answer]]
Step = tuple[Sequence[str], Sequence[str]]


def run(arms: Sequence[str], answers: Table, goal: Goal | None = None) -> tuple[str, list[Step]]:
    asked: list[Step] = []

    async def ask(entered: Sequence[str], block: Sequence[str]) -> Table:
        asked.append((entered, block))
        return answers

    async def leaders() -> list[str]:
        return [leader async for leader, _, _ in race(arms, QUESTIONS, goal or Goal(), ask)]

    return asyncio.run(leaders())[-1], asked


def table(worth: Mapping[str, float], cost: Callable[[str], float] = lambda _arm: 100.0) -> Table:
    draw = Random(0)
    return {
        arm: {name: Answer(float(draw.random() < share), cost(arm)) for name in QUESTIONS}
        for arm, share in worth.items()
    }


def test_the_best_arm_is_found_with_half_of_the_answers() -> None:
    finalist, asked = run(ARMS, table({**dict.fromkeys(ARMS, 0.2), "arm7": 0.9}))
    assert finalist == "arm7"
    taken = sum(len(arms) * len(block) for arms, block in asked)
    assert taken <= 0.5 * len(ARMS) * len(QUESTIONS)
    assert next((len(arms), len(block)) for arms, block in asked) == (16, block_sizes(16, 64)[0][1])


def test_the_incumbent_answers_every_question_and_a_resumed_race_takes_the_same_steps() -> None:
    answers = table(dict.fromkeys(ARMS, 0.5))
    finalist, asked = run(ARMS, answers)
    assert all(arms[0] == "base" for arms, _ in asked)
    assert [name for _, block in asked for name in block] == QUESTIONS
    assert run(ARMS, answers) == (finalist, asked)


def test_an_arm_whose_answers_failed_is_judged_by_the_others() -> None:
    answers = table({**dict.fromkeys(ARMS, 0.2), "arm7": 0.9})
    del answers["arm3"]["0"], answers["base"]["9"]
    assert run(ARMS, answers)[0] == "arm7"


def test_the_cheapest_that_is_not_worse_is_the_finalist() -> None:
    prices = {"base": 500.0, "arm1": 50.0, "arm2": 20.0}
    answers = table({"base": 1.0, "arm1": 1.0, "arm2": 0.2}, prices.__getitem__)
    assert run([*prices], answers, Goal(within=0.05))[0] == "arm1"


def test_a_gain_is_confirmed_and_its_absence_is_not() -> None:
    base = [Answer(float(at % 2), 1) for at in range(60)]
    better = [Answer(1.0 if at % 4 else at % 2, 1) for at in range(60)]
    assert confirm(better, base, Goal()).wins
    assert not confirm(base, base, Goal()).wins
    assert not confirm(base, better, Goal()).wins
    assert confirm(base, better, Goal()).needed is None


def test_few_questions_without_a_difference_do_not_show_that_an_arm_is_not_worse() -> None:
    cheap, dear = [Answer(1.0, 1)], [Answer(1.0, 9)]
    assert not confirm(cheap * 24, dear * 24, Goal(within=0.05)).wins
    assert confirm(cheap * 96, dear * 96, Goal(within=0.05)).wins
    assert not confirm(dear * 96, cheap * 96, Goal(within=0.05)).wins  # not cheaper


def test_forecasts_are_those_of_a_paired_test() -> None:
    gaps = [0.49, -0.35] * 50  # mean 0.07, standard deviation 0.42
    assert 200 <= (needed(gaps, 0, 0.05) or 0) <= 240
    assert round(detectable(40), 2) == 0.15
