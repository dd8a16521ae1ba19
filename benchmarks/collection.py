"""Questions about all rows of real tables: `table_query` with the right SQL, and with a model, beside `concat`.

    python benchmarks/collection.py [--each 3] [--list]
    python benchmarks/collection.py --model llamacpp:FILE [--count 60] [--free] [--out collection.jsonl]

The tables are data that come with the system, Python and scikit-learn. Answers are computed here from the original
values; the files spell these as users' files do: units, percent, decimal commas, dates with slashes, blanks, "on
request", as CSV, TSV, Excel, JSON and JSON lines, one table in four files. Without a model, each question's own SQL is run.
With one, results are appended to a file, from which a later call goes on: `results/tables` has two such files. `--free`:
questions in users' words, which do not name columns. An answer is right if it has all values, numbers to four digits, and
no other number where one is asked for.
"""

from __future__ import annotations

import argparse
import csv
import json
import mimetypes
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ragweave import KnowledgeBase, build_graph, chat_model
from ragweave.tools.knowledge import IndexSettings
from ragweave.tools.knowledge.tables import QueryError

Row = dict[str, Any]


@dataclass
class Question:
    """A question with its answer's values and a query that finds them."""

    kind: str
    text: str
    answer: list[str]
    sql: str = ""


@dataclass
class Data:
    """A real table: its rows, and how its file spells them."""

    name: str
    things: str
    key: str
    """The column that names a row."""
    rows: list[Row]
    groups: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    spell: dict[str, Callable[[Any], str]] = field(default_factory=dict)
    suffix: str = ".csv"
    delimiter: str = ","
    files: int = 1

    def write(self, folder: Path) -> None:
        rows = [{name: self.spell.get(name, plain)(value) for name, value in row.items()} for row in self.rows]
        for number in range(self.files):
            path = folder / f"{self.name}{f'-{2021 + number}' * (self.files > 1)}{self.suffix}"
            write_table(path, rows[number :: self.files], self.delimiter)


def write_table(path: Path, rows: list[Row], delimiter: str) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif path.suffix == ".xlsx":
        import openpyxl

        book = openpyxl.Workbook()
        for cells in ([*rows[0]], *([*row.values()] for row in rows)):
            book.active.append(cells)
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)


def plain(value: Any) -> str:
    return "" if value is None else str(value)


def day_of(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None


def number_of(text: str) -> float | None:
    return float(text) if text else None


def slashed(value: date | None) -> str:
    return value.strftime("%d/%m/%Y") if value else ""


def releases() -> Iterator[Data]:
    for name in ("debian", "ubuntu"):
        path = Path(f"/usr/share/distro-info/{name}.csv")
        if path.exists():
            dates = ["created", "release", "eol"]
            rows = [
                {"codename": row["codename"], "version": f"v{row['version'].split()[0]}" if row["version"] else None}
                | {day: day_of(row[day]) for day in dates}
                for row in csv.DictReader(path.read_text().splitlines())
            ]
            spell = dict.fromkeys(dates, slashed) if name == "ubuntu" else {}
            yield Data(f"{name}_releases", f"{name.title()} releases", "codename", rows, dates=dates, spell=spell)


def countries() -> Iterator[Data]:
    folder = Path("/usr/share/zoneinfo")
    if (folder / "iso3166.tab").exists():
        zones, rows = Counter[str](), list[Row]()
        for line in (folder / "zone1970.tab").read_text().splitlines():
            zones.update(line.split("\t")[0].split(",") if line[0] != "#" else ())
        for line in (folder / "iso3166.tab").read_text().splitlines():
            if line[0] != "#":
                code, name = line.split("\t")
                rows.append({"code": code, "country": name, "time zones": zones.get(code, 0), "initial": name[0]})
        yield Data(
            "countries", "countries", "country", rows, ["initial"], ["time zones"], suffix=".tsv", delimiter="\t"
        )


def packages() -> Iterator[Data]:
    path = Path("/var/lib/dpkg/status")
    if path.exists():
        rows = []
        for block in path.read_text().split("\n\n"):
            own = dict(re.findall(r"^(\w[\w-]*): (.*)$", block, re.M))
            if own:
                size = number_of(own.get("Installed-Size", ""))
                row = {"package": own["Package"], "section": own.get("Section"), "priority": own.get("Priority")}
                row |= {"installed size": size, "essential": own.get("Essential")}
                rows.append(row | {"maintainer": own.get("Maintainer", "").partition(" <")[0]})
        spell = {"installed size": lambda value: "on request" if value is None else f"{value:,.0f} KiB"}
        groups = ["section", "priority", "maintainer"]
        yield Data("packages", "packages", "package", rows, groups, ["installed size"], spell=spell)


def measures() -> Iterator[Data]:
    import sklearn.datasets as sets

    iris, wine, cancer, diabetes = (
        sets.load_iris(),
        sets.load_wine(),
        sets.load_breast_cancer(),
        sets.load_diabetes(scaled=False),
    )
    names = [name.removesuffix(" (cm)") for name in iris.feature_names]
    rows = [
        {"plant": f"P-{number:03}", "species": str(iris.target_names[kind])}
        | dict(zip(names, map(float, values), strict=True))
        for number, (values, kind) in enumerate(zip(iris.data, iris.target, strict=True), 1)
    ]
    in_cm = dict.fromkeys(names, lambda value: f"{value} cm")
    yield Data("iris", "plants", "plant", rows, ["species"], names[:3], spell=in_cm, suffix=".xlsx")
    rows = [
        {"wine": f"Wine {number}", "cultivar": "ABC"[kind], "alcohol": float(values[0]), "magnesium": float(values[4])}
        | {"proline": float(values[12])}
        for number, (values, kind) in enumerate(zip(wine.data, wine.target, strict=True), 1)
    ]
    spell = {
        "alcohol": lambda value: f"{value:.2f} %".replace(".", ","),
        "proline": lambda value: f"{value:,.1f}".replace(",", " ").replace(".", ","),
    }
    numbers = ["alcohol", "magnesium", "proline"]
    yield Data("wines", "wines", "wine", rows, ["cultivar"], numbers, spell=spell, delimiter=";")
    rng = random.Random(7)
    rows = [
        {"sample": f"S{number}", "diagnosis": str(cancer.target_names[kind])}
        | {
            "mean radius": None if rng.random() < 0.05 else round(float(values[0]), 2),
            "mean area": round(float(values[3]), 1),
        }
        for number, (values, kind) in enumerate(zip(cancer.data[:300], cancer.target[:300], strict=True), 1)
    ]
    spell = {"mean radius": lambda value: "n/a" if value is None else f"{value} mm"}
    numbers = ["mean radius", "mean area"]
    yield Data("samples", "samples", "sample", rows, ["diagnosis"], numbers, spell=spell, suffix=".jsonl")
    rows = [
        {
            "patient": f"patient {number}",
            "age": int(values[0]),
            "sex": "fm"[int(values[1]) - 1],
            "bmi": round(float(values[2]), 1),
        }
        | {"progress": None if rng.random() < 0.03 else int(goal)}
        for number, (values, goal) in enumerate(zip(diabetes.data, diabetes.target, strict=True), 1)
    ]
    spell = {
        "age": lambda value: f"{value} years",
        "progress": lambda value: "pending" if value is None else f"{value} %",
    }
    yield Data("patients", "patients", "patient", rows, ["sex"], ["age", "bmi", "progress"], spell=spell, files=4)


def of_python() -> Iterator[Data]:
    rows = [{"status": code.phrase, "code": code.value, "class": f"{code.value // 100}xx"} for code in HTTPStatus]
    yield Data("http_statuses", "HTTP statuses", "status", rows, ["class"], ["code"], suffix=".json")
    types = mimetypes.MimeTypes(())
    pairs = sorted(types.types_map[True].items())
    rows = [
        {"extension": ending, "media type": kind, "family": kind.partition("/")[0], "characters": len(kind)}
        for ending, kind in pairs
    ]
    yield Data("media_types", "file extensions", "extension", rows, ["family", "media type"], ["characters"])


def all_tables() -> list[Data]:
    return [*releases(), *countries(), *packages(), *of_python(), *measures()]


def named(label: str) -> str:
    return re.sub(r"\W+", "_", label)


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


class Asking:
    """Makes the questions about a table."""

    def __init__(self, data: Data, rng: random.Random, each: int) -> None:
        self.data, self.rng, self.each, self.questions = data, rng, each, list[Question]()

    def add(self, kind: str, text: str, answer: list[Any], sql: str) -> None:
        """Add a question about the table, unless its answer is empty or too long."""
        values = [f"{value:.10g}" if isinstance(value, float) else str(value) for value in answer]
        if 0 < len(values) <= 40:
            sql = sql.format(t=self.data.name, key=named(self.data.key))
            self.questions.append(Question(kind, text.format(things=self.data.things), values, sql))

    def having(self, **values: Any) -> list[Row]:
        return [row for row in self.data.rows if all(row[name] == value for name, value in values.items())]

    def all(self) -> list[Question]:
        self.add("count", "How many {things} are there?", [len(self.data.rows)], "SELECT count(*) FROM {t}")
        for group in self.data.groups:
            self.about_group(group)
        for number in self.data.numbers:
            self.about_number(number)
            for group in self.data.groups[:2]:
                self.about_number_by_group(number, group)
        for day in self.data.dates:
            self.about_date(day)
        if self.data.dates:
            self.about_spans(self.data.dates[0], self.data.dates[-1])
        for first, second in zip(self.data.numbers, self.data.numbers[1:], strict=False):
            self.about_two(first, second)
        return self.questions

    def about_group(self, group: str) -> None:
        rows, key, g = self.data.rows, self.data.key, named(group)
        counts = Counter(row[group] for row in rows if row[group])
        self.add(
            "distinct",
            f"How many different values of {group} do the {{things}} have?",
            [len(counts)],
            f"SELECT count(DISTINCT {g}) FROM {{t}}",
        )
        for value in self.rng.sample([*counts], min(self.each, len(counts))):
            sql = f"SELECT count(*) FROM {{t}} WHERE {g} = {quoted(value)}"
            self.add("count", f"How many {{things}} have the {group} {value}?", [counts[value]], sql)
        few = [value for value, count in counts.items() if count <= 8]
        for value in self.rng.sample(few, min(2, len(few))):
            names = [row[key] for row in rows if row[group] == value]
            sql = f"SELECT {{key}} FROM {{t}} WHERE {g} = {quoted(value)}"
            self.add("list", f"List the {{things}} whose {group} is {value}.", names, sql)
        if len(counts) <= 12:
            pairs = [part for pair in counts.items() for part in pair]
            self.add(
                "group",
                f"How many {{things}} are there for each {group}?",
                pairs,
                f"SELECT {g}, count(*) FROM {{t}} GROUP BY {g}",
            )
        most = counts.most_common(2)
        if len(most) > 1 and most[0][1] > most[1][1]:
            sql = f"SELECT {g} FROM {{t}} GROUP BY {g} ORDER BY count(*) DESC LIMIT 1"
            self.add("group", f"Which {group} do most of the {{things}} have?", [most[0][0]], sql)
            limit = sorted(counts.values())[-min(4, len(counts))]
            often = [value for value, count in counts.items() if count >= limit]
            sql = f"SELECT {g} FROM {{t}} WHERE {g} IS NOT NULL GROUP BY {g} HAVING count(*) >= {limit}"
            self.add("group", f"Which values of {group} do at least {limit} {{things}} have?", often, sql)
            share = 100 * most[0][1] / len(rows)
            sql = f"SELECT 100.0 * sum({g} = {quoted(most[0][0])}) / count(*) FROM {{t}}"
            self.add("percent", f"What percentage of all {{things}} has the {group} {most[0][0]}?", [share], sql)
        if none := sum(row[group] is None for row in rows):
            self.add(
                "gaps", f"How many {{things}} have no {group}?", [none], f"SELECT count(*) FROM {{t}} WHERE {g} IS NULL"
            )

    def about_number(self, number: str) -> None:
        rows, key, n = self.data.rows, self.data.key, named(number)
        values = [row[number] for row in rows if row[number] is not None]
        total = f"SELECT {{}}({n}) FROM {{{{t}}}}"
        self.add("sum", f"What is the total {number} of all {{things}}?", [sum(values)], total.format("sum"))
        self.add("mean", f"What is the average {number} of the {{things}}?", [mean(values)], total.format("avg"))
        self.add("max", f"What is the greatest {number} of all {{things}}?", [max(values)], total.format("max"))
        self.add("min", f"What is the smallest {number} of all {{things}}?", [min(values)], total.format("min"))
        sql = f"SELECT max({n}) - min({n}) FROM {{t}}"
        self.add(
            "max",
            f"How far are the greatest and the smallest {number} of the {{things}} apart?",
            [max(values) - min(values)],
            sql,
        )
        ordered = sorted((row for row in rows if row[number] is not None), key=lambda row: -row[number])
        for place, (count, word) in {1: (1, "the greatest"), 3: (3, "the three greatest values of")}.items():
            if ordered[place - 1][number] > ordered[place][number]:
                sql = f"SELECT {{key}} FROM {{t}} ORDER BY {n} DESC LIMIT {count}"
                self.add(
                    "which",
                    f"Which of the {{things}} have {word} {number}?",
                    [row[key] for row in ordered[:count]],
                    sql,
                )
        if none := len(rows) - len(values):
            self.add(
                "gaps",
                f"How many {{things}} have no {number}?",
                [none],
                f"SELECT count(*) FROM {{t}} WHERE {n} IS NULL",
            )
        middle = sorted(values)[len(values) // 4 : -len(values) // 4]
        low, high = sorted(self.rng.sample(middle, 2))
        sql = f"SELECT count(*) FROM {{t}} WHERE {n} > {low!r}"
        self.add(
            "count", f"How many {{things}} have a {number} above {low:g}?", [sum(value > low for value in values)], sql
        )
        sql = f"SELECT count(*) FROM {{t}} WHERE {n} BETWEEN {low!r} AND {high!r}"
        between = sum(low <= value <= high for value in values)
        self.add("count", f"How many {{things}} have a {number} from {low:g} to {high:g}?", [between], sql)
        average = mean(values)
        sql = f"SELECT count(*) FROM {{t}} WHERE {n} > (SELECT avg({n}) FROM {{t}})"
        self.add(
            "count",
            f"How many {{things}} have a {number} above the average?",
            [sum(value > average for value in values)],
            sql,
        )

    def about_number_by_group(self, number: str, group: str) -> None:
        n, g = named(number), named(group)
        counts = Counter(row[group] for row in self.data.rows if row[group])
        by_group = {
            value: [row[number] for row in self.having(**{group: value}) if row[number] is not None] for value in counts
        }
        value = self.rng.choice([name for name, values in by_group.items() if values])
        where = f"FROM {{t}} WHERE {g} = {quoted(value)}"
        own = by_group[value]
        for kind, word, aggregate, expected in (
            ("mean", "average", "avg", mean(own)),
            ("sum", "total", "sum", sum(own)),
            ("max", "greatest", "max", max(own)),
        ):
            self.add(
                kind,
                f"What is the {word} {number} of the {{things}} with the {group} {value}?",
                [expected],
                f"SELECT {aggregate}({n}) {where}",
            )
        limit = self.rng.choice(own)
        sql = f"SELECT count(*) {where} AND {n} <= {limit!r}"
        self.add(
            "count",
            f"How many {{things}} with the {group} {value} have a {number} of at most {limit:g}?",
            [sum(amount <= limit for amount in own)],
            sql,
        )
        if len(counts) <= 12:
            for kind, aggregate, word in ((mean, "avg", "average"), (max, "max", "greatest")):
                pairs = [part for name, values in by_group.items() for part in (name, kind(values))]
                sql = f"SELECT {g}, {aggregate}({n}) FROM {{t}} GROUP BY {g}"
                self.add("group", f"What is the {word} {number} for each {group} of the {{things}}?", pairs, sql)

    def about_date(self, day: str) -> None:
        rows, key, d = self.data.rows, self.data.key, named(day)
        values = sorted(row[day] for row in rows if row[day])
        year = self.rng.choice(values[len(values) // 4 : -len(values) // 4]).year
        for text, holds, where in (
            (f"in {year} or later", lambda value: value.year >= year, f"{d} >= '{year}-01-01'"),
            (f"in {year}", lambda value: value.year == year, f"strftime('%Y', {d}) = '{year}'"),
            (f"before {year}", lambda value: value.year < year, f"{d} < '{year}-01-01'"),
            ("in an October", lambda value: value.month == 10, f"strftime('%m', {d}) = '10'"),
        ):
            count = sum(map(holds, values))
            self.add(
                "date",
                f"How many {{things}} have a date of {day} {text}?",
                [count],
                f"SELECT count(*) FROM {{t}} WHERE {where}",
            )
        for word, chosen, aggregate in (("earliest", values[0], "min"), ("latest", values[-1], "max")):
            if values.count(chosen) == 1:
                names = [row[key] for row in rows if row[day] == chosen]
                sql = f"SELECT {{key}} FROM {{t}} WHERE {d} = (SELECT {aggregate}({d}) FROM {{t}})"
                self.add("date", f"Which of the {{things}} has the {word} date of {day}?", names, sql)
        self.add(
            "date", f"What is the latest date of {day} of the {{things}}?", [values[-1]], f"SELECT max({d}) FROM {{t}}"
        )
        if none := len(rows) - len(values):
            self.add(
                "gaps",
                f"How many {{things}} have no date of {day}?",
                [none],
                f"SELECT count(*) FROM {{t}} WHERE {d} IS NULL",
            )

    def about_spans(self, first: str, last: str) -> None:
        a, b = named(first), named(last)
        days = {row[self.data.key]: (row[last] - row[first]).days for row in self.data.rows if row[first] and row[last]}
        sql = f"SELECT avg(julianday({b}) - julianday({a})) FROM {{t}}"
        text = f"How many days lie on average between the dates of {first} and {last} of the {{things}}?"
        self.add("date", text, [mean(days.values())], sql)
        longest = max(days.values())
        if [*days.values()].count(longest) == 1:
            sql = f"SELECT {{key}} FROM {{t}} ORDER BY julianday({b}) - julianday({a}) DESC LIMIT 1"
            names = [name for name, span in days.items() if span == longest]
            self.add("date", f"Which of the {{things}} has the most days between {first} and {last}?", names, sql)

    def about_two(self, first: str, second: str) -> None:
        a, b = named(first), named(second)
        both = [(row[first], row[second]) for row in self.data.rows if None not in (row[first], row[second])]
        x, y = self.rng.choice(both)
        sql = f"SELECT count(*) FROM {{t}} WHERE {a} > {x!r} AND {b} <= {y!r}"
        count = sum(one > x and two <= y for one, two in both)
        self.add(
            "count", f"How many {{things}} have a {first} above {x:g} and a {second} of at most {y:g}?", [count], sql
        )
        sql = f"SELECT count(*) FROM {{t}} WHERE {a} > {x!r} OR {b} > {y!r}"
        count = sum((row[first] or 0) > x or (row[second] or 0) > y for row in self.data.rows)
        self.add("count", f"How many {{things}} have a {first} above {x:g} or a {second} above {y:g}?", [count], sql)
        sql = f"SELECT sum({b}) FROM {{t}} WHERE {a} > {x!r}"
        self.add(
            "sum",
            f"What is the total {second} of the {{things}} with a {first} above {x:g}?",
            [sum(two for one, two in both if one > x)],
            sql,
        )


def questions(each: int = 3) -> tuple[list[Data], list[Question]]:
    """Return the tables, and the questions about them."""
    tables, rng = all_tables(), random.Random(1)
    return tables, [question for data in tables for question in Asking(data, rng, each).all()]


def free_questions() -> list[Question]:
    """Return questions in users' words."""
    by_name = {data.name: data.rows for data in all_tables()}
    iris, wines, patients = by_name["iris"], by_name["wines"], by_name["patients"]
    samples, statuses, media = by_name["samples"], by_name["http_statuses"], by_name["media_types"]
    ill = [row for row in samples if row["diagnosis"] == "malignant"]
    answers: dict[str, list[Any]] = {
        "How many setosas did we measure?": [sum(row["species"] == "setosa" for row in iris)],
        "What's the longest petal we have seen?": [max(row["petal length"] for row in iris)],
        "How wide are setosa sepals on average?": [mean(row["sepal width"] for row in iris if row["species"] == "setosa")],
        "Do we have any wines stronger than 14 percent? How many?": [sum(row["alcohol"] > 14 for row in wines)],
        "Which wine is the strongest?": [max(wines, key=lambda row: row["alcohol"])["wine"]],
        "How many kinds of grape are the wines made of?": [len({row["cultivar"] for row in wines})],
        "How many women took part in the study?": [sum(row["sex"] == "f" for row in patients)],
        "How old was the oldest patient?": [max(row["age"] for row in patients)],
        "How many patients are over 60?": [sum(row["age"] > 60 for row in patients)],
        "How heavy, by body mass index, are the men on average?": [mean(row["bmi"] for row in patients if row["sex"] == "m")],
        "How many tumours turned out to be malignant?": [len(ill)],
        "How big is the biggest tumour by area?": [max(row["mean area"] for row in samples)],
        "For how many tumours don't we know the radius?": [sum(row["mean radius"] is None for row in samples)],
        "How many HTTP codes mean that the server failed?": [sum(row["class"] == "5xx" for row in statuses)],
        "What does 404 stand for?": [next(row["status"] for row in statuses if row["code"] == 404)],
        "How many kinds of images does the list of file endings know?": [sum(row["family"] == "image" for row in media)],
        "Which endings do video files have?": [row["extension"] for row in media if row["family"] == "video"],
        "How short was the shortest sepal?": [min(row["sepal length"] for row in iris)],
        "Which species has the widest sepals on average?": [max({row["species"] for row in iris}, key=lambda name: mean(row["sepal width"] for row in iris if row["species"] == name))],
        "How many flowers had petals longer than 6 centimetres?": [sum(row["petal length"] > 6 for row in iris)],
        "How strong is the weakest wine?": [min(row["alcohol"] for row in wines)],
        "How many of our wines are below 12 percent?": [sum(row["alcohol"] < 12 for row in wines)],
        "How old are the patients on average?": [mean(row["age"] for row in patients)],
        "How many patients are younger than 30?": [sum(row["age"] < 30 for row in patients)],
        "For how many people is the progress still pending?": [sum(row["progress"] is None for row in patients)],
        "How large is a benign tumour on average, by area?": [mean(row["mean area"] for row in samples if row["diagnosis"] == "benign")],
        "What share of the tumours was harmless, in percent?": [100 * (1 - len(ill) / len(samples))],
        "How many codes are there for redirects?": [sum(row["class"] == "3xx" for row in statuses)],
        "Which code means that there were too many requests?": [next(row["code"] for row in statuses if row["status"] == "Too Many Requests")],
        "How many endings are there for sound files?": [sum(row["family"] == "audio" for row in media)],
    }  # fmt: skip
    if "countries" in by_name:
        rows = by_name["countries"]
        answers |= {
            "How many countries are there in the world?": [len(rows)],
            "Which country spans the most time zones?": [max(rows, key=lambda row: row["time zones"])["country"]],
            "How many countries start with a Z?": [sum(row["initial"] == "Z" for row in rows)],
            "How many countries get by with a single time zone?": [sum(row["time zones"] == 1 for row in rows)],
            "How many countries have more than five time zones?": [sum(row["time zones"] > 5 for row in rows)],
        }
    if "debian_releases" in by_name:
        rows = by_name["debian_releases"]
        answers["When did Debian's Bookworm come out?"] = [
            row["release"] for row in rows if row["codename"] == "Bookworm"
        ]
    if "packages" in by_name:
        rows = [row for row in by_name["packages"] if row["installed size"] is not None]
        answers |= {
            "How many programs are installed on this machine?": [len(by_name["packages"])],
            "What takes up the most space on the disk?": [max(rows, key=lambda row: row["installed size"])["package"]],
            "How much disk space do the libraries in libs need together?": [sum(row["installed size"] for row in rows if row["section"] == "libs")],
            "Who looks after the largest number of packages?": [Counter(row["maintainer"] for row in by_name["packages"]).most_common(1)[0][0]],
        }  # fmt: skip
    return [
        Question("free", text, [f"{v:.10g}" if isinstance(v, float) else str(v) for v in values])
        for text, values in answers.items()
    ]


def filled(folder: Path, embedding: str | None = None) -> KnowledgeBase:
    for data in all_tables():
        data.write(folder)
    kb = KnowledgeBase.create(folder / "kb", settings=IndexSettings(embedding=embedding))
    kb.index_paths(folder)
    return kb


def flat(rows: Iterable[Iterable[Any]]) -> list[str]:
    return [
        f"{value:.10g}" if isinstance(value, float) else str(value)
        for row in rows
        for value in row
        if value is not None
    ]


def same(values: list[str], answer: list[str]) -> bool:
    """Return whether values are those of the answer, in any order, numbers to five digits."""

    def normal(text: str) -> str:
        try:
            return f"{float(text):.5g}"
        except ValueError:
            return " ".join(text.lower().split())

    return sorted(map(normal, values)) == sorted(map(normal, answer))


def is_right(reply: str, answer: list[str]) -> bool:
    """Return whether a reply has every value of the answer, and for a single number no other one."""
    text = " ".join(reply.lower().replace(",", "").split())
    numbers = [f"{float(number):.4g}" for number in re.findall(r"-?\d+(?:\.\d+)?(?![\d-])", text)]
    if len(answer) == 1 and re.fullmatch(r"-?\d+(\.\d+)?", answer[0]):
        return {*numbers} == {f"{float(answer[0]):.4g}"}
    wanted = (value.lower().replace(",", "") for value in answer)
    return all(
        f"{float(v):.4g}" in numbers if re.fullmatch(r"-?\d+(\.\d+)?", v) else " ".join(v.split()) in text
        for v in wanted
    )


def by_right_sql(kb: KnowledgeBase, asked: list[Question]) -> None:
    """Run each question's own SQL."""
    started = time.perf_counter()
    tables = kb.tables()
    print(f"tables built in {time.perf_counter() - started:.2f} s")
    right, counted, slowest = Counter[str](), 0, 0.0
    for question in asked:
        started = time.perf_counter()
        try:
            result = tables.run(question.sql)
        except QueryError as error:
            print("WRONG", question, error)
            continue
        slowest = max(slowest, time.perf_counter() - started)
        is_same = same(flat(result.rows), question.answer)
        right[question.kind] += is_same
        counted += bool(result.table)
        if not is_same:
            print("WRONG", question, flat(result.rows))
    kinds = Counter(question.kind for question in asked)
    print(f"{sum(right.values())} of {len(asked)} right; rows known for {counted}; slowest {1000 * slowest:.0f} ms")
    print(", ".join(f"{kind} {right[kind]}/{count}" for kind, count in kinds.items()))


def by_model(kb: KnowledgeBase, asked: list[Question], spec: str, out: Path) -> None:
    """Ask `table_query` all questions, then `concat`, so that a local model goes on from the same beginning of a prompt.

    The answers of `table_query` are the values of its results: another prompt in between would cost that beginning.
    """
    model = chat_model(spec)
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for method in ("table_query", "concat"):
        options: Any = {"worded": False} if method == "table_query" else {}
        graph = build_graph(method, model=model, retriever=kb.as_retriever(), **options)  # type: ignore[arg-type]
        for question in asked:
            if any((row["system"], row["id"]) == (method, question.text) for row in done):
                continue
            started = time.perf_counter()
            *_, state = graph.stream({"question": question.text}, stream_mode="values")
            usage, seconds = state["usage"], round(time.perf_counter() - started, 1)
            row = {"system": method, "kind": question.kind, "id": question.text, "gold": question.answer}
            row |= {"answer": state["answer"], "scores": {"right": is_right(state["answer"], question.answer)}}
            row |= {"sql": [note["detail"]["sql"] for note in state["notes"] if "sql" in note["detail"]]}
            row |= {"tokens": usage["input_tokens"] + usage["output_tokens"], "seconds": seconds}
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            done.append(row)
    for method in ("table_query", "concat"):
        rows = [row for row in done if row["system"] == method]
        right, seconds = sum(row["scores"]["right"] for row in rows), statistics.median(row["seconds"] for row in rows)
        print(f"{method}: {right} of {len(rows)} right; median {seconds:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--each", type=int, default=3, help="values of a column that are asked about")
    parser.add_argument("--list", action="store_true", help="print the questions")
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("collection.jsonl"))
    given = parser.parse_args()
    asked = free_questions() if given.free else questions(given.each)[1]
    if given.list:
        print("\n".join(f"{question.kind}: {question.text} {question.answer}" for question in asked))
        return
    with tempfile.TemporaryDirectory() as name, filled(Path(name), "auto" if given.model else None) as kb:
        if given.model:
            random.Random(5).shuffle(asked)
            by_model(kb, asked[: given.count], given.model, given.out)
        else:
            by_right_sql(kb, asked)


if __name__ == "__main__":
    main()
