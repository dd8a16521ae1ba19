"""What `ragweave tune` delivers, on answers that were recorded.

    python benchmarks/tune.py                    # 1,000 rounds, about half an hour on one core
    python benchmarks/tune.py --only power

60 questions of HotpotQA and of NQ were answered by 26 methods with a 1.5B model (`results/real_models`). They are the
population: in each round a user's questions are drawn from it, with replacement, so what an arm is worth is known.
`halves` alone draws without replacement: it chooses on one half of the questions, and looks at the other.
"""

import argparse
import asyncio
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import numpy as np

from ragweave.evaluation.race import ALPHA, RESERVED, Answer, Answers, Goal, Verdict, confirm, race
from ragweave.evaluation.statistics import bootstrap

RECORDED = Path(__file__).parent / "results" / "real_models"
RESULTS = Path(__file__).parent / "results" / "tune.json"
INCUMBENT = "concat"
SIZES = (60, 120, 240)


class World:
    """Arms × questions × (score, cost); the incumbent is the first arm."""

    def __init__(self, name: str, arms: Sequence[str], table: Any) -> None:
        self.name, self.arms, self.table = name, [*arms], table

    @classmethod
    def read(cls, name: str) -> "World":
        """Read the recorded answers to a data set."""
        with gzip.open(RECORDED / f"methods-{name}.jsonl.gz", "rt") as file:
            rows = [json.loads(line) for line in file]
        records = {(row["system"], row["id"]): row for row in rows}
        arms = sorted({row["system"] for row in rows}, key=lambda arm: (arm != INCUMBENT, arm))
        ids = [name for name in dict.fromkeys(row["id"] for row in rows) if all((arm, name) in records for arm in arms)]

        def cell(row: dict[str, Any]) -> tuple[float, float]:
            return row["scores"].get("f1", 0.0), row["input_tokens"] + row["output_tokens"]

        return cls(name, arms, np.array([[cell(records[arm, name]) for name in ids] for arm in arms], float))

    def drawn(self, random: Any, size: int) -> "World":
        """Return a user's questions."""
        return World(self.name, self.arms, self.table[:, random.integers(0, self.table.shape[1], size)])

    def with_equal_arms(self, random: Any) -> "World":
        """Permute, for each question, which arm gave which answer: no arm is better than another."""
        columns = [self.table[random.permutation(len(self.table)), at] for at in range(self.table.shape[1])]
        return World(self.name, self.arms, np.stack(columns, axis=1))

    def worth(self, arm: str, questions: Sequence[int] | slice = slice(None)) -> float:
        """Return how much better an arm is than the incumbent, in points."""
        scores = self.table[:, questions, 0]
        return float(100 * (scores[self.arms.index(arm)].mean() - scores[0].mean()))

    def choose(self, questions: Sequence[int], *, halving: bool = True) -> tuple[str, int]:
        """Return the finalist, and how many answers it took."""
        names = [str(at) for at in questions]
        answers = {
            arm: {name: Answer(*self.table[row, int(name)]) for name in names} for row, arm in enumerate(self.arms)
        }
        if not halving:
            return Goal().ranked(self.arms, answers, names, is_last=True)[0], len(self.arms) * len(names)
        taken = 0

        async def ask(entered: Sequence[str], block: Sequence[str]) -> Answers:
            nonlocal taken
            taken += len(entered) * len(block)
            return answers

        async def leaders() -> list[str]:
            return [leader async for leader, *_ in race(self.arms, names, Goal(), ask)]

        return asyncio.run(leaders())[-1], taken

    def tune(self, seed: int, *, halving: bool = True, reserved: float = RESERVED) -> tuple[str, Verdict | None, int]:
        """Return the finalist, the verdict on it, and how many answers that took."""
        chosen, others = split([str(at) for at in range(self.table.shape[1])], reserved, seed)
        finalist, taken = self.choose([*map(int, chosen)], halving=halving)
        if finalist == self.arms[0]:
            return finalist, None, taken
        rows = (self.arms.index(finalist), 0)
        pair = [[Answer(*self.table[row, int(at)]) for at in others] for row in rows]
        return finalist, confirm(*pair, Goal()), taken + 2 * len(others)


def split(questions: Sequence[str], reserved: float, seed: int) -> tuple[list[str], list[str]]:
    """Return the questions to choose by and those kept back, each in random order."""
    order = Random(seed).sample(questions, len(questions))
    at = round(len(order) * (1 - reserved))
    return order[:at], order[at:]


def halves(world: World, rounds: int) -> Iterator[dict[str, Any]]:
    """Choose on one half of the questions, and look at the other."""
    size = world.table.shape[1]
    for halving in (False, True):
        results = []
        for seed in range(rounds):
            chosen, others = split([str(at) for at in range(size)], 0.5, seed)
            finalist, taken = world.choose([*map(int, chosen)], halving=halving)
            results.append(
                (world.worth(finalist, [*map(int, chosen)]), world.worth(finalist, [*map(int, others)]), taken)
            )
        shown, delivered, taken = (fmean(result[at] for result in results) for at in range(3))
        share = 100 * taken / (len(world.arms) * (size - round(size * 0.5)))
        yield {"halving": halving, "shown": shown, "delivered": delivered, "answers": share}


def procedure(world: World, rounds: int, reserved: float = RESERVED) -> Iterator[dict[str, Any]]:
    """Choose and confirm."""
    for size in SIZES:
        for halving in (False, True):
            random, results = np.random.default_rng(1), []
            for seed in range(rounds):
                user = world.drawn(random, size)
                finalist, verdict, taken = user.tune(seed, halving=halving, reserved=reserved)
                arm = finalist if verdict and verdict.wins else INCUMBENT
                results.append(
                    (world.worth(arm), 100.0 * (world.worth(arm) < 0), 100 * taken / (len(world.arms) * size))
                )
            delivered, worse, share = (fmean(result[at] for result in results) for at in range(3))
            yield {"questions": size, "halving": halving, "delivered": delivered, "worse": worse, "answers": share}


def smaller_test(world: World, rounds: int) -> Iterator[dict[str, Any]]:
    """Keep only 40 % back."""
    yield from procedure(world, rounds, 0.4)


def false_switches(world: World, rounds: int) -> Iterator[dict[str, Any]]:
    """Count switches among equal arms, of which none is right."""
    for size in SIZES:
        random, switched = np.random.default_rng(2), 0
        for seed in range(rounds):
            verdict = world.drawn(random, size).with_equal_arms(random).tune(seed)[1]
            switched += bool(verdict and verdict.wins)
        yield {"questions": size, "switched": 100 * switched / rounds}


def power(world: World, rounds: int) -> Iterator[dict[str, Any]]:
    """Make one of several equal arms better, and count how often it is confirmed."""
    mean = world.table[:, :, 0].mean()
    for gain in (0.07, 0.10, 0.15):
        for size in SIZES:
            counts = dict.fromkeys((len(world.arms), 8, 2), 0)
            for count in counts:
                random = np.random.default_rng(3)
                for seed in range(rounds):
                    user = world.drawn(random, size).with_equal_arms(random)
                    user = World(user.name, user.arms[:count], user.table[:count])
                    better = 1 + int(random.integers(count - 1))
                    raised = random.random(size) < gain / (1 - mean)  # answers made right
                    user.table[better, :, 0] = np.where(raised, 1.0, user.table[better, :, 0])
                    finalist, verdict, _ = user.tune(seed)
                    counts[count] += bool(verdict and verdict.wins) and finalist == user.arms[better]
            yield {"gain": 100 * gain, "questions": size} | {str(arms): 100 * n / rounds for arms, n in counts.items()}


def not_worse(rounds: int, margin: float = 0.05) -> Iterator[dict[str, Any]]:
    """Count how often an arm passes that is worse by just the margin (at most 5 %), and one that is equal."""

    def plain(gaps: Any) -> bool:
        return bootstrap([*gaps]).low > -margin

    def ours(gaps: Any) -> bool:
        return confirm([Answer(gap, 0) for gap in gaps], [Answer(0, 1)] * len(gaps), Goal(margin)).wins

    worlds = {"losses alone": 0.0, "a tenth": 0.05, "a third": 0.166}
    for label, share in worlds.items():
        wins, losses = (share - margin / 2, share + margin / 2) if share else (0.0, margin)
        for size in (24, 48, 96, 240):
            random = np.random.default_rng(4)
            worse = [random.choice([1.0, -1.0, 0.0], size, p=[wins, losses, 1 - wins - losses]) for _ in range(rounds)]
            equal = [random.choice([1.0, -1.0, 0.0], size, p=[share, share, 1 - 2 * share]) for _ in range(rounds)]
            rates = {"plain": (plain, worse), "worse": (ours, worse), "equal": (ours, equal)}
            yield {"arms differ on": label, "kept": size} | {
                name: 100 * fmean(rule(gaps) for gaps in draws) for name, (rule, draws) in rates.items()
            }


TABLES: dict[str, Callable[[World, int], Iterator[dict[str, Any]]]] = {
    "halves": halves,
    "procedure": procedure,
    "smaller_test": smaller_test,
    "false_switches": false_switches,
    "power": power,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--only", default=",".join([*TABLES, "not_worse"]))
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name in given.only.split(","):
        sets = {"not_worse": [], "power": ["hotpotqa"]}.get(name, ["hotpotqa", "nq"])
        worlds = [World.read(data) for data in sets]
        tables = {world.name: TABLES[name](world, given.rounds) for world in worlds} or {"any": not_worse(given.rounds)}
        for data, rows in tables.items():
            print(f"{name}, {data}, {given.rounds} rounds")
            results.setdefault(name, {})[data] = []
            for row in rows:
                row = {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}
                print("  " + "  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                results[name][data].append(row)
            RESULTS.write_text(json.dumps({"rounds": given.rounds, **results}, indent=1) + "\n", "utf-8")
    if false := results.get("false_switches"):
        highest = max(row["switched"] for rows in false.values() for row in rows)
        print(f"false switches: at most {highest} % (goal: {100 * ALPHA:.0f} %)")


if __name__ == "__main__":
    main()
