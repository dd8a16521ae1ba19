"""Questions over a whole collection of prose: answers by reading everything, and which questions are sent there.

    python benchmarks/exhaustive.py router
    python benchmarks/exhaustive.py MODEL [--questions N] [--documents N] [--cache replies.sqlite]

The collection is made here: 60 short texts in three folders (36 inspection reports of bridges, 12 letters, 12 minutes), whose
facts are known, after the manner of AGGBench (Zhu et al. 2026). Part of what is asked stands in other words, and each
text has facts that are not asked for. `router` says how many questions are taken for questions about a whole collection
(`concat_pf`'s `collection="auto"`): of NQ and HotpotQA in ../shared/data, each over the passages of its files, at most 1 %
may be; of those below, of those of `collection.py` over its tables, and of questions about one text. A MODEL, such as `llamacpp:model.gguf`, answers the
questions, each over N of the texts, half of them of the kind that it is about: how many forms have the right operation,
how many texts are rightly counted or left out, and how many answers are right.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document

from ragweave import KnowledgeBase, build_graph, chat_model
from ragweave.nodes.route import asks_about_all, fits_tables
from ragweave.testing import ModelCall
from ragweave.tools.replies import ReplyCache, asking

Facts = dict[str, Any]
PLACES = ["Alden", "Verra", "Osk", "Norhaven", "Sorre", "Veld", "Tarn", "Brook", "Hallin", "Quill", "Marsh", "Dunmere"]
WATERS = ["the Sorre", "the Ilm", "a mill race", "the canal", "the railway"]
OPENINGS = [
    "On {day} we inspected the {name}, which carries a road over {over}.",
    "Inspection of {day}. Object: the {name} over {over}.",
    "The {name}, a crossing of {over}, was visited on {day}.",
]
MATERIALS = {
    "stone": ["Its arches are of grey granite, built of cut stone.", "It is a stone bridge."],
    "steel": ["The deck rests on steel girders.", "It is a truss of riveted steel."],
    "wood": ["It is built of wood, of larch beams.", "Oak beams carry the deck: all of it is wood."],
}
LENGTHS = ["From bank to bank it measures {length} metres.", "Its length is {length} m; the lanes are {lanes} m wide."]
YEARS = ["It was opened in {year}.", "Since {year} it has been in use."]
STATES = {
    True: ["It was closed to all traffic the same day.", "Until it is repaired, the bridge stays closed."],
    False: ["It may stay open.", "Traffic is not restricted; the bridge remains open."],
}
COSTS = ["The repairs will cost {cost:,} euros.", "We expect repairs of EUR {cost:,}."]
SUBJECTS = {
    "noise": [
        "Since the detour began, lorries roar past my window all night.",
        "The noise of the pumps is unbearable.",
    ],
    "potholes": ["There are potholes again in front of the school.", "My bicycle broke in one of your potholes."],
    "light": [
        "The street light at our corner has been dark for weeks.",
        "Why has nobody mended the lamps on the quay?",
    ],
}


class Question(NamedTuple):
    """A question about the 60 texts, and the form that asks each of them."""

    text: str
    operation: str
    kind: str
    """The kind of text that it is about."""
    condition: str
    fact: str
    """The fact that is noted of each; of a list without a comparison, the names."""
    value: str = ""
    meets: Callable[[Facts], Any] = lambda _own: True
    least: float = -math.inf
    most: float = math.inf
    """Facts are kept from `least` to `most`."""

    @property
    def compared(self) -> tuple[str, str]:
        """The comparison that a fact must pass, and its limit."""
        if self.least == self.most:
            return "=", str(self.least)
        if self.least > -math.inf:
            return ">=", str(self.least)
        return ("<=", str(self.most)) if self.most < math.inf else ("none", "")

    def counted(self, among: Container[str] | None = None) -> list[Facts]:
        """Return the texts that count, of all or of those with some titles."""
        shown = [own for own in facts() if among is None or own["title"] in among]
        own = [own for own in shown if self.noted(own) is not None]
        return [facts for facts in own if not self.compared[1] or self.least <= float(facts[self.fact]) <= self.most]

    def noted(self, own: Facts) -> Any:
        """Return the fact that is noted of a text; None if it does not meet the condition."""
        return own[self.fact] if own["kind"] == self.kind and self.meets(own) else None

    def gold(self, among: Container[str] | None = None) -> Any:
        """Return a number, a set of names, or counts by name; None if no text counts."""
        own = self.counted(among)
        of_operation: dict[str, Callable[[list[Any]], Any]] = {
            "count": len,
            "list": lambda _values: {facts["name" if self.compared[1] else self.fact] for facts in own},
            "sum": sum,
            "mean": statistics.fmean,
            "min": min,
            "max": max,
            "group": Counter,
        }
        values = [facts[self.fact] for facts in own]
        return of_operation[self.operation](values) if own or self.operation == "count" else None


def facts() -> Iterator[Facts]:
    """Yield the facts of each text."""
    rng = random.Random(59)
    for number in range(36):
        visited = rng.choice([2022, 2023, 2024])
        yield {
            "kind": "report",
            "title": f"Inspection report {number + 1}",
            "name": f"{PLACES[number % 12]} {['Upper', 'Lower', 'New'][number // 12]} Bridge",
            "over": rng.choice(WATERS),
            "visited": visited,
            "day": f"{rng.randint(1, 28)} {rng.choice(['March', 'June', 'October'])} {visited}",
            "material": rng.choice([*MATERIALS]),
            "length": rng.randint(12, 240),
            "lanes": rng.randint(3, 9),
            "year": rng.randint(1840, 1995),
            "closed": rng.random() < 0.3,
            "cost": rng.randint(12, 900) * 100 if rng.random() < 0.8 else None,
        }
    for number in range(12):
        yield {
            "kind": "letter",
            "title": f"Letter {number + 1}",
            "name": rng.choice(PLACES[:5]),
            "subject": rng.choice([*SUBJECTS]),
            "years": rng.randint(2, 40),
        }
    for number in range(12):
        yield {
            "kind": "minutes",
            "title": f"Minutes {number + 1}",
            "day": f"{rng.randint(1, 28)} {rng.choice(['January', 'May', 'September'])} 2024",
            "members": rng.randint(5, 17),
            "grant": rng.randint(2, 60) * 1000,
            "name": rng.choice(["the school roof", "the swimming pool", "new trees on the quay"]),
        }


def text_of(own: Facts, rng: random.Random) -> str:
    """Return a text with these facts, in changing words and order."""
    if own["kind"] == "report":
        parts = [rng.choice(MATERIALS[own["material"]]), rng.choice(LENGTHS), rng.choice(YEARS)]
        rng.shuffle(parts)
        cost = rng.choice(COSTS) if own["cost"] else "No repairs are needed."
        parts = [rng.choice(OPENINGS), *parts, rng.choice(STATES[own["closed"]]), cost]
        return " ".join(parts).format(**own)
    if own["kind"] == "letter":
        return (
            f"To the town council. I have lived in {own['name']} for {own['years']} years and never complained. "
            f"{rng.choice(SUBJECTS[own['subject']])} Please answer me within a month."
        )
    return (
        f"Council meeting of {own['day']}. Present: {own['members']} members. The council spoke of the bridges for an hour, "
        f"then granted {own['grant']:,} euros for {own['name']}. The next meeting is in four weeks."
    )


def documents() -> list[Document]:
    """Return the 60 texts."""
    rng = random.Random(60)
    return [Document(text_of(own, rng), id=own["title"], metadata={"title": own["title"]}) for own in facts()]


BRIDGE, LETTER, MINUTES = "Is it an inspection report?", "Is it a letter?", "Is it the minutes of a meeting?"
REPAIR, LENGTH, YEAR = "Does it say what repairs of a bridge cost?", "the bridge's length", "the year of the inspection"
QUESTIONS = [
    Question(
        "How many of the inspected bridges are made of stone?",
        "count",
        "report",
        "Is it about a stone bridge?",
        "name",
        meets=lambda own: own["material"] == "stone",
    ),
    Question("How many bridges are at least 100 metres long?", "count", "report", BRIDGE, "length", LENGTH, least=100),
    Question(
        "How many bridges were closed after the inspection?",
        "count",
        "report",
        "Was the bridge closed?",
        "name",
        meets=lambda own: own["closed"],
    ),
    Question(
        "How many letters complain about noise?",
        "count",
        "letter",
        "Is it a letter about noise?",
        "name",
        meets=lambda own: own["subject"] == "noise",
    ),
    Question(
        "At how many meetings were ten members or more present?",
        "count",
        "minutes",
        MINUTES,
        "members",
        "number of members present",
        least=10,
    ),
    Question(
        "How many of the inspections took place in 2023?",
        "count",
        "report",
        BRIDGE,
        "visited",
        YEAR,
        least=2023,
        most=2023,
    ),
    Question(
        "Which bridges were opened in 1870 or before?",
        "list",
        "report",
        BRIDGE,
        "year",
        "the year in which it was opened",
        most=1870,
    ),
    Question(
        "List all bridges made of wood.",
        "list",
        "report",
        "Is it about a bridge made of wood?",
        "name",
        meets=lambda own: own["material"] == "wood",
    ),
    Question(
        "Which bridges were closed?",
        "list",
        "report",
        "Was the bridge closed?",
        "name",
        meets=lambda own: own["closed"],
    ),
    Question("From which towns did letters come?", "list", "letter", LETTER, "name"),
    Question("For which purposes did the council grant money at its meetings?", "list", "minutes", MINUTES, "name"),
    Question(
        "What will the repairs of all bridges cost in total?",
        "sum",
        "report",
        REPAIR,
        "cost",
        "the cost",
        meets=lambda own: own["cost"],
    ),
    Question(
        "What is the total cost of repairs of the steel bridges?",
        "sum",
        "report",
        "Does it say what repairs of a steel bridge cost?",
        "cost",
        "the cost",
        meets=lambda own: own["cost"] and own["material"] == "steel",
    ),
    Question(
        "How much money did the council grant at all meetings together?",
        "sum",
        "minutes",
        MINUTES,
        "grant",
        "the amount granted",
    ),
    Question("What is the average length of the bridges?", "mean", "report", BRIDGE, "length", LENGTH),
    Question(
        "What do the repairs of the bridges cost on average?",
        "mean",
        "report",
        REPAIR,
        "cost",
        "the cost",
        meets=lambda own: own["cost"],
    ),
    Question(
        "On average, how many years have the writers of the letters lived in their towns?",
        "mean",
        "letter",
        LETTER,
        "years",
        "the number of years",
    ),
    Question("How long is the longest of the bridges?", "max", "report", BRIDGE, "length", LENGTH),
    Question("Which of the bridges is the oldest?", "min", "report", BRIDGE, "year", "the year in which it was opened"),
    Question("What is the largest grant of all meetings?", "max", "minutes", MINUTES, "grant", "the amount granted"),
    Question(
        "How many bridges are there of each material?", "group", "report", BRIDGE, "material", "stone, steel or wood"
    ),
    Question(
        "What do the letters complain about, and how many about each?",
        "group",
        "letter",
        LETTER,
        "subject",
        "noise, potholes or light",
    ),
    Question("How many letters came from each town?", "group", "letter", LETTER, "name", "the town"),
    Question("How many inspections were there in each year?", "group", "report", BRIDGE, "visited", YEAR),
]
"""Questions about the collection."""
SPELLED = {"length": "{} metres", "cost": "EUR {:,}", "grant": "{:,} euros", "years": "{} years"}
"""How the values of a fact are noted."""
NAMES = {"report": "the bridge", "letter": "the town", "minutes": "what the money is for"}
POINT = [
    "How long is the Alden Upper Bridge?",
    "What do the repairs of the Verra Lower Bridge cost?",
    "When was the Osk New Bridge inspected?",
    "How many members were present on 4 May 2024?",
    "Which bridge carries a road over a mill race at Tarn?",
    "Is the bridge at Quill made of steel?",
    "What does the letter from Norhaven complain about?",
    "How many years has the writer from Sorre lived there?",
    "What is the total length of the Marsh New Bridge?",
    "Which members spoke about the school roof?",
    "How much did the council grant for the swimming pool on 12 January 2024?",
    "Why was the Hallin Upper Bridge closed?",
    "How many metres does the Dunmere Lower Bridge measure?",
    "Who has to answer the letter about the pumps?",
    "How wide are the lanes of the bridge at Brook?",
    "When is the next meeting of the council?",
    "Which material are the arches of the Veld Upper Bridge made of?",
    "How many weeks has the street light been dark?",
    "What did the first inspection report say of the deck?",
    "How many euros were granted for new trees on the quay in May?",
]
"""Questions about one of the texts."""


COLLECTIONS: dict[str, tuple[list[tuple[str, str]], list[str], list[str]]] = {
    "recipes": (
        [
            ("recipes/lentil-soup.md", "# Lentil soup"),
            ("recipes/apple-cake.md", "# Apple cake"),
            ("recipes/chard-pie.md", "# Chard pie"),
        ],
        [
            "How many of our recipes need butter?",
            "List every recipe without meat.",
            "Which recipes take longer than an hour?",
            "What is the average cooking time of all recipes?",
            "Which recipe has the most ingredients?",
            "How many recipes are there for each season?",
        ],
        [
            "How many eggs go into the apple cake?",
            "How long does the lentil soup cook?",
            "Which spices are in the chard pie?",
            "What is the best flour for the apple cake?",
            "List the ingredients of the lentil soup.",
            "How many people does the chard pie serve?",
        ],
    ),
    "tickets": (
        [
            (f"tickets/{n}.txt", f"Ticket {n}: {text}")
            for n, text in ((1042, "printer offline"), (1043, "VPN drops"), (1044, "new screen"))
        ],
        [
            "How many tickets are about the printer?",
            "Which tickets were closed without a reply?",
            "What share of the tickets took over a week on average?",
            "Which is the oldest open ticket?",
            "Give me all tickets that mention the VPN.",
            "How many tickets did each department open?",
        ],
        [
            "Who closed ticket 1042?",
            "How many pages had the printer printed in ticket 1042?",
            "What was wrong with the VPN?",
            "Which screen was ordered?",
            "How many times did the VPN drop on Monday?",
            "When was ticket 1044 opened?",
        ],
    ),
    "interviews": (
        [
            (f"interview-{n:02}.txt", f"Interview {n}, with {who}")
            for n, who in ((1, "a nurse"), (2, "a tram driver"), (3, "a baker"))
        ],
        [
            "In how many interviews does noise come up?",
            "Which interviewees mention shift work in their interviews?",
            "How often is the pay criticised over all interviews together?",
            "What is the longest interview?",
            "Name the professions of the people in the interviews.",
            "How many interviews per year were held?",
        ],
        [
            "What does the nurse say about night shifts?",
            "How many years has the tram driver worked?",
            "Which line does the tram driver drive?",
            "How many loaves does the baker bake a day?",
            "What is the most tiring part of the nurse's work?",
            "Who asked the baker about holidays?",
        ],
    ),
    "leases": (
        [
            (f"contracts/{name}.md", "# Lease agreement\n\nBetween the town of Alden")
            for name in ("mill-lane-12", "quay-3", "station-road-8")
        ],
        [
            "How many leases renew by themselves?",
            "Which of the contracts have a notice period of under three months?",
            "What is the total monthly rent of all leases?",
            "Which lease runs the longest?",
            "List the tenants of all contracts.",
            "How many contracts were signed in each year?",
        ],
        [
            "How many rooms does the lease of Mill Lane 12 cover?",
            "What is the total rent for Quay 3?",
            "How many months' notice must the tenant of Quay 3 give?",
            "Which repairs does the tenant of Station Road 8 pay?",
            "Who signed the lease of Mill Lane 12?",
            "What is the latest date for paying the rent of Quay 3?",
        ],
    ),
    "orders": (
        [
            (
                "orders.csv",
                "order,customer,product,items,total,ordered,shipped,status\n"
                "00001,Verra Ltd,pine shelf,2,EUR 57.50,2024-02-02,2024-02-03,open\n"
                "00002,Quill Interiors,desk lamp,3,EUR 94.50,2024-03-03,2024-03-04,returned\n"
                "00003,Verra Ltd,office chair,4,EUR 131.50,2024-03-04,,paid\n",
            )
        ],
        [
            "How many orders did Marsh & Sons place?",
            "What did we sell in March altogether?",
            "Which customer buys the most?",
            "Are any orders still open? How many?",
            "How much money did returned orders cost us?",
        ],
        [
            "How many items does order 00003 include?",
            "When was order 00007 shipped?",
            "What is the total of order 00005?",
            "Who placed order 00011?",
            "Is order 00012 paid?",
        ],
    ),
    "agreements": (
        [
            (
                f"agreements/{partner.lower().replace(' ', '-')}.md",
                f"---\ntitle: Contract with {partner}\npartner: {partner}\nsigned: {signed}\nfee: {fee}\n---\n"
                f"This agreement between us and {partner} covers the {what}. The fee is EUR {fee} a month.",
            )
            for partner, what, fee, signed in (
                ("Verra Cleaning", "cleaning of the offices", 1200, "2022-03-01"),
                ("Osk Hosting", "hosting of our web site", 450, "2023-05-12"),
                ("Dunmere Estates", "lease of the warehouse", 3100, "2019-09-30"),
                ("Quill Paper", "supply of paper", 210, "2023-11-20"),
            )
        ],
        [
            "How many contracts run out next year?",
            "Which of our contracts let the partner raise its prices?",
            "Do all contracts limit liability?",
            "What do we pay for all contracts together per month?",
            "Who have we signed contracts with since 2023?",
        ],
        [
            "How many days' notice must we give to Verra Cleaning?",
            "What do we pay Verra Cleaning per month?",
            "Which services does the contract with Osk Hosting include?",
            "What is the most that Osk Hosting is liable for?",
            "When does the lease of the warehouse end?",
        ],
    ),
    "meetings": (
        [
            (f"minutes/{n}.md", f"# Minutes of the meeting of {day}\n\nPresent: twelve members. {text}")
            for n, (day, text) in enumerate(
                (
                    ("8 March 2024", "The roof of the hall leaks."),
                    ("3 May 2024", "The boiler is replaced."),
                    ("7 June 2024", "The roof is repaired for EUR 18,000."),
                )
            )
        ],
        [
            "How many meetings did Ada miss?",
            "At which meetings was the budget discussed?",
            "How often was the roof on the agenda?",
            "What was decided at each of the meetings?",
            "Which meeting took the longest?",
        ],
        [
            "Who chaired the meeting on 3 May?",
            "How many people attended the meeting of 7 June 2024?",
            "What was decided about the roof?",
            "How much does the new boiler cost each year?",
            "Who takes the minutes at the next meeting?",
        ],
    ),
    "handbook": (
        [
            ("handbook/pay.md", "# Pay\n\nEmployees are paid on the 25th of each month."),
            ("handbook/leave.md", "# Leave\n\nEmployees have 28 days of leave a year."),
            ("handbook/remote-work.md", "# Remote work\n\nEmployees may work from home two days a week."),
            ("handbook/expenses.md", "# Expenses\n\nEmployees hand in bills by the tenth."),
        ],
        [],
        [
            "What do employees get per month?",
            "How many days of leave do employees have each year?",
            "How many employees may work from home?",
            "Which expenses are paid back?",
        ],
    ),
}
"""Other collections: files with their first words, questions about all, and about one. The rules were not fitted to the first four."""


def values_of(answer: str) -> list[str]:
    """Return the parts of an answer of `exhaustive`, without how many were read."""
    return answer.rpartition(" (read ")[0].split(", ")


def is_right(answer: str, gold: Any) -> bool:
    """Return whether an answer of `exhaustive` is right: numbers to four digits, names in any order."""
    parts = values_of(answer)
    if gold is None:
        return parts in (["none"], ["0"])
    if isinstance(gold, Counter):
        return Counter(map(str.casefold, parts)) == Counter(f"{name}: {n}".casefold() for name, n in gold.items())
    if isinstance(gold, set):
        return {_bare(part) for part in parts} == {_bare(name) for name in gold}
    number = re.search(r"\d[\d,]*(?:\.\d+)?", parts[0])
    return number is not None and f"{float(number[0].replace(',', '')):.4g}" == f"{gold:.4g}"


def _bare(name: str) -> str:
    return name.casefold().removeprefix("the ")


def exact(question: Question) -> Callable[[ModelCall], str]:
    """Return what a model that reads without a mistake replies."""
    every = {own["title"]: own for own in facts()}

    def reply(call: ModelCall) -> str:
        if call.node == "plan_reading":
            own = {name: getattr(question, name) for name in ("operation", "condition", "value")}
            compare, limit = question.compared
            return json.dumps({**own, "name": NAMES[question.kind], "compare": compare, "limit": limit})
        title = re.findall(r'title="(.*?)"', call.text)[0]
        noted = question.noted(every[title])
        values = [] if noted is None or not question.value else [SPELLED.get(question.fact, "{}").format(noted)]
        return json.dumps(
            {"meets": "No" if noted is None else "Yes", "names": [every[title]["name"]], "values": values}
        )

    return reply


def taken(kb: KnowledgeBase, questions: Iterable[str]) -> list[str]:
    """Return the questions that are taken for questions about a whole collection."""
    return [text for text in questions if asks_about_all(text, kb)]


def route() -> int:
    """Print how many questions are taken for questions about a whole collection; return 1 if more of NQ or HotpotQA than may be."""
    from collection import filled, free_questions  # tests import this file from elsewhere
    from collection import questions as table_questions
    from passage_sets import rows

    nq, hotpot, code = (
        "nq/nq-open-oracle.jsonl.gz",
        ("hotpotqa/hotpot-dev-200.jsonl.gz", "hotpotqa/hotpot-train-100.json.gz"),
        0,
    )
    more = ["nq/dpr-one-passage.jsonl.gz", "nq/t5-generated-answers.jsonl.gz", "recorded-llama31-8b/nq.jsonl.gz"]
    found = [(doc["title"], doc["text"]) for row in rows(nq) for doc in row["ctxs"]]
    found += [(row["ctx"]["title"], row["ctx"]["text"]) for row in rows(more[0])]
    titled = [(title, " ".join(text)) for path in hotpot for row in rows(path) for title, text in row["context"]]
    sets: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
        "NQ, WebQuestions, TriviaQA": (found, [nq, *more]),
        "HotpotQA": (titled, [*hotpot, "recorded-llama31-8b/hotpotqa.jsonl.gz"]),
    }
    for name, (passages, files) in sets.items():
        questions = {str(row.get("question") or row.get("input")).strip() for path in files for row in rows(path)}
        with _base([Document(text, metadata={"title": title}) for title, text in dict.fromkeys(passages)]) as kb:
            astray = taken(kb, questions)
        print(f"{name}: {len(astray)} of {len(questions)} go astray; {sorted(astray)[:5]}")
        code |= len(astray) > 0.01 * len(questions)
    with _base(documents()) as kb:
        whole = [question.text for question in QUESTIONS]
        print(f"60 texts: {len(taken(kb, whole))} of {len(whole)} about all; astray {taken(kb, POINT)} of {len(POINT)}")
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder)) as kb:
        for name, asked in (("of tables", table_questions()[1]), ("of tables, in users' words", free_questions())):
            whole = [question.text for question in asked]
            hits = taken(kb, whole)
            fitting = sum(fits_tables(text, kb) for text in hits)
            print(f"{name}: {len(hits)} of {len(whole)} about all, {fitting} of them go to table_query; missed:")
            print(sorted({*whole} - {*hits}))
    for name, (files, whole, point) in COLLECTIONS.items():
        with tempfile.TemporaryDirectory() as folder, _base([]) as kb:
            for path, text in files:
                Path(folder, path).parent.mkdir(exist_ok=True)
                Path(folder, path).write_text(text)
            kb.index_paths(folder)
            missed = [text for text in whole if text not in taken(kb, whole)]
            print(f"{name}: missed {missed} of {len(whole)} about all; astray {taken(kb, point)} of {len(point)}")
    return code


@contextmanager
def _base(docs: list[Document]) -> Iterator[KnowledgeBase]:
    settings = {"embedding": None}
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase.create(Path(folder, "kb"), settings=settings) as kb:
        kb.add(docs)
        yield kb


def answer(spec: str, questions: int, texts: int, cache: Path) -> None:
    """Print how a model fills in the forms."""
    model, rng, right = ReplyCache(cache).attach(chat_model(spec), spec), random.Random(5), Counter[str]()
    every, docs = [*facts()], documents()
    for asked, question in enumerate(rng.sample(QUESTIONS, len(QUESTIONS))[:questions], start=1):
        own = [doc for doc, of in zip(docs, every, strict=True) if of["kind"] == question.kind]
        among = rng.sample(own, min(len(own), texts // 2))
        among += rng.sample([doc for doc in docs if doc not in among], texts - len(among))
        gold = question.gold({doc.id for doc in among})
        graph = build_graph("exhaustive", model=model)
        with asking():
            *_, state = graph.stream({"question": question.text, "passages": among}, stream_mode="values")
        right["operation"] += state["task"].get("operation") == question.operation
        right["answers"] += is_right(state["answer"], gold)
        none = values_of(state["answer"]) in (["none"], ["0"])
        counted = set() if none else {*state["candidates"]["add_up:0"]["passages"]}
        wanted = {own["title"] for own in question.counted({doc.id for doc in among})}
        right["texts"] += sum((doc.id in counted) == (doc.id in wanted) for doc in among)
        right["of texts"] += len(among)
        print(f"{question.text} {state['answer']}; right: {gold}; {state['task']}")
        print(f"{asked} questions: {dict(right)}", flush=True)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", help="`router`, or the spec of a model")
    parser.add_argument("--questions", type=int, default=len(QUESTIONS), help="number of questions for a model")
    parser.add_argument("--documents", type=int, default=60, help="number of texts for each question")
    parser.add_argument("--cache", type=Path, default=Path("replies.sqlite"), help="file of the model's replies")
    given = parser.parse_args()
    if given.what == "router":
        return route()
    answer(given.what, given.questions, given.documents, given.cache)
    return 0


if __name__ == "__main__":
    sys.exit(main())
