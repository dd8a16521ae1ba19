"""Write what is generated into the repository, or check that it is current.

    python docs/sync.py            # what `make sync` runs
    python docs/sync.py --check    # what `make lint` runs: fails where a file is stale, and names it

Generated are `langgraph.json`'s graphs, the names that type checkers see, `docs/methods.md`, the public interface
in `tests/api.txt`, and the blocks between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in the docs. The
site's own pages (`hooks/pages.py`) are made when it is built.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

from ragweave.evaluation import METRICS
from ragweave.evaluation.reproduce import listing
from ragweave.evaluation.statistics import holm
from ragweave.graphs import METHODS, Method
from ragweave.graphs.base import Group
from ragweave.nodes.options import Options
from ragweave.roles import ROLES
from ragweave.tools.filters import FILTERS
from ragweave.tools.knowledge.chunking import CHUNKERS
from ragweave.tools.knowledge.loaders import FILE_TYPES
from ragweave.tools.providers import MODELS

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import claims  # noqa: E402  (it lies beside the results)

CHAT = "A conversation over a method: follow-ups are restated, answers quote their sources."


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; `head` separates its columns by bars."""
    cells = [[cell.strip() for cell in head.split("|")], *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def calls(method: Method) -> str:
    """Return a method's model calls with its default options."""
    fewest, most = method.calls(method.options())
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def methods() -> str:
    """Return the page of the methods, a table for each group."""
    tables = [
        "# All methods",
        "[Which one to choose](choose.md). Calls are those of one question with the default options.",
    ]
    for group in get_args(Group):
        rows = [
            [f"`{method.name}`", method.summary, calls(method), method.paper]
            for method in METHODS.ours()
            if method.group == group
        ]
        if rows:
            tables += [f"## {group.capitalize()}", table("method | what it does | calls | paper", rows)]
    return "\n\n".join(tables) + "\n"


def models() -> str:
    """Return the table of the model specs."""
    rows = [[f"`{provider.spec}`", provider.summary] for provider in MODELS.ours()]
    return table("spec | model", [*rows, ["`PROVIDER:NAME`", "any other provider of LangChain's `init_chat_model`"]])


def roles() -> str:
    """Return the table of the roles."""
    rows = [
        [
            f"`{role.name}`",
            role.summary + " (`build_chat`)" * role.in_chat,
            f"`{role.fallback}`" if role.fallback else "",
            "yes" if role.may_decide else "",
        ]
        for role in ROLES.values()
    ]
    return table("role | what its model does | if not given | may be a decision model", rows)


def reproductions() -> str:
    """Return the papers with their tables and data sets."""
    papers: dict[str, tuple[list[str], dict[str, None]]] = {}
    for paper, name, _, data in listing():
        names, sets = papers.setdefault(paper, ([], {}))
        names.append(name)
        sets.update(dict.fromkeys(data.split(", ")))
    rows = [[f"`{paper}`", ", ".join(names), ", ".join(sets)] for paper, (names, sets) in papers.items()]
    return table("paper | tables and figures | data sets", rows)


def measured(name: str) -> Any:
    """Return the results of a benchmark."""
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))


def starred(difference: list[float], p: float) -> str:
    """Return a difference with its interval, and a star if it is significant."""
    return claims.interval_text(*difference) + "*" * (p < 0.05)


def gains(of: str = "sets") -> dict[str, str]:
    """Return what graph retrieval gains over hybrid retrieval on each set; p is corrected for the sets.

    A set that was measured before its p was recorded is not significant.
    """
    sets = measured("graph_retrieval")[of].values()
    corrected = holm([row.get("p over hybrid", 1.0) for row in sets])
    return {row["set"]: starred(row["gain over hybrid"], p) for row, p in zip(sets, corrected, strict=True)}


def recall() -> str:
    """Return the recall of hybrid and graph retrieval on four sets."""
    sets, gain = measured("graph_retrieval")["sets"], gains()
    shown = {"2WikiMultihopQA": "2wiki", "HotpotQA": "hotpotqa", "MuSiQue": "musique", "NQ (one hop)": "nq"}
    rows = [
        ["hybrid retrieval (BM25 and MiniLM)", *(str(sets[name]["hybrid"]) for name in shown.values())],
        ["graph retrieval, the default", *(str(sets[name]["graph"]) for name in shown.values())],
        ["gain, 95 % interval", *(gain[name] for name in shown.values())],
    ]
    return table(" | ".join(["", *shown]), rows)


def retrieval(of: str = "sets") -> str:
    """Return the recall of each way to search, on each set."""
    names = {"2wiki": "2WikiMultihopQA", "hotpotqa": "HotpotQA", "musique": "MuSiQue", "nq": "NQ", "squad": "SQuAD"}
    names |= {"clapnq": "CLAPNQ", "scifact": "SciFact"}
    ways = {"BM25": "BM25", "dense": "dense", "hybrid (RRF)": "hybrid by rank", "hybrid": "hybrid"}
    ways |= {"graph, words": "graph without vectors", "graph": "graph"}
    gain = gains(of)
    rows = [
        [names.get(name, f"`{name}`"), f"{row['passages']:,}", str(row["questions"])]
        + [str(row[way]) for way in ways]
        + [gain[name]]
        for name, row in measured("graph_retrieval")[of].items()
    ]
    return table(" | ".join(["set", "passages", "questions", *ways.values(), "gain"]), rows)


def among(of: str = "among") -> str:
    """Return the recall of the sets of several hops among the passages of all sets, beside what is published."""
    published = {"2wiki": "90.4", "hotpotqa": "96.3", "musique": "74.7"}
    names = {"2wiki": "2WikiMultihopQA", "hotpotqa": "HotpotQA", "musique": "MuSiQue"}
    rows = [
        [
            names[name],
            f"{row['passages']:,}",
            *(str(row[mode]) for mode in ("bm25", "dense", "hybrid", "graph")),
            published[name],
        ]
        for name, row in measured("graph_retrieval")[of].items()
    ]
    return table("set | passages | BM25 | dense | hybrid | graph | HippoRAG 2, other questions", rows)


def e5() -> str:
    """Return the recall of the sets of several hops with multilingual-e5-small."""
    gain, names = gains("sets, e5"), {"2wiki": "2WikiMultihopQA", "hotpotqa": "HotpotQA", "musique": "MuSiQue"}
    sets = measured("graph_retrieval")["sets, e5"]
    rows = [
        [
            shown,
            str(sets[name]["questions"]),
            *(str(sets[name][way]) for way in ("dense", "hybrid", "graph")),
            gain[name],
        ]
        for name, shown in names.items()
    ]
    return table("set | questions | dense | hybrid | graph | gain", rows)


def enrichment() -> str:
    """Return what a model's names and facts change in recall; p is corrected for the four ways to search."""
    modes, rows = ("bm25", "dense", "hybrid", "graph"), []
    for name, row in measured("enrich").items():
        corrected = holm([row[f"{mode}, p"] for mode in modes])
        changes = (starred(row[f"{mode}, enriched"], p) for mode, p in zip(modes, corrected, strict=True))
        shown = (f"{row[mode]}, {change}" for mode, change in zip(modes, changes, strict=True))
        rows.append([name, str(row["passages"]), *shown])
    return table("model | passages | BM25 | dense | hybrid | graph", rows)


def exact_words() -> str:
    """Return how often the passage that a query is taken from comes first."""
    modes = ("bm25", "dense", "hybrid", "graph")
    rows = [
        [name, str(row["passages"]), str(row["queries"]), *(str(row[mode][0]) for mode in modes)]
        for name, row in measured("exact_words").items()
    ]
    return table("corpus | passages | queries | BM25 | dense | hybrid | graph", rows)


def fusion() -> str:
    """Return what other rules of fusion change in hybrid retrieval, by corpus and model."""
    names = {"2wiki": "2Wiki", "hotpotqa": "HotpotQA", "musique": "MuSiQue", "nq": "NQ", "squad": "SQuAD"}
    names |= {"clapnq": "CLAPNQ", "scifact": "SciFact"}
    rows = []
    for place, row in measured("fusion").items():
        sets = {name: row[name] for name in names if name in row}
        rows.append([f"*{place}: {', '.join(names[name] for name in sets)}*", ""])
        for rule in next(iter(sets.values())):
            values = [of_set[rule] for of_set in sets.values()]
            shown = [claims.interval_text(*value) if isinstance(value, list) else str(value) for value in values]
            rows.append([rule, ", ".join(shown)])
    return table("rule | recall, or its difference from the rule in use", rows)


def ablations() -> str:
    """Return what variants of graph retrieval change."""
    sets = measured("graph_ablations")
    names = {"2wiki": "2WikiMultihopQA", "hotpotqa": "HotpotQA", "musique": "MuSiQue"}
    rows = [
        [
            variant,
            *(starred(row["variants"][variant]["difference"], row["variants"][variant]["p"]) for row in sets.values()),
        ]
        for variant in next(iter(sets.values()))["variants"]
    ]
    return table(
        " | ".join(["tried", *(f"{names[name]}, {row['questions']} questions" for name, row in sets.items())]), rows
    )


def file_types() -> str:
    """Return the table of the file types."""
    rows = [
        [f"`{kind.name}`", " ".join(kind.suffixes), kind.summary + (f" (extra `{kind.extra}`)" if kind.extra else "")]
        for kind in FILE_TYPES.ours()
    ]
    return table("type | files | passages are made of", rows)


BLOCKS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "README.md": {"recall": recall},
    "docs/graph-retrieval.md": {"retrieval": retrieval, "among": among, "e5": e5},
    "benchmarks/README.md": {
        "ablations": ablations,
        "enrichment": enrichment,
        "e5": lambda: retrieval("sets, e5"),
        "e5 among": lambda: among("among, e5"),
        "exact words": exact_words,
        "fusion": fusion,
        "retrieval": lambda: table(*claims.retrieval_table()),
    },
    "docs/results.md": {"methods": lambda: table(*claims.methods_table())},
    "docs/models.md": {"models": models, "roles": roles},
    "docs/documents.md": {
        "file types": file_types,
        "chunkers": lambda: table("chunker | passages", [[f"`{kind.name}`", kind.summary] for kind in CHUNKERS.ours()]),
    },
    "docs/extend.md": {
        "filters": lambda: table(
            "filter | what it keeps", [[f"`{kind.name}`", kind.summary] for kind in FILTERS.ours()]
        )
    },
    "docs/reproduce.md": {"reproductions": reproductions},
}


def with_block(text: str, name: str, content: str) -> str:
    """Return a page with one of its blocks replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, after = text[: text.index(begin)], text[text.index(end) :]
    return f"{before}{begin}\n\n{content}\n\n{after}"


def with_names(text: str) -> str:
    """Return `names.py` with the names of our metrics."""
    quoted = ", ".join(f'"{metric.name}"' for metric in METRICS.ours())
    lines = textwrap.wrap(quoted, 100, break_on_hyphens=False)
    listed = "".join(f"    Literal[{line.rstrip(',')}],\n" for line in lines)
    return re.sub(r"MetricName = Literal\[\n.*?\n\]", lambda _: f"MetricName = Literal[\n{listed}]", text, flags=re.S)


def langgraph_json(text: str) -> str:
    """Return `langgraph.json` with the conversation and our methods as its graphs; the rest stays."""
    settings = json.loads(text)
    listed = {"chat": CHAT, **{method.name: method.summary for method in METHODS.ours()}}
    settings["graphs"] = {
        name: {"path": f"ragweave.serving.studio:{name}", "description": about} for name, about in listed.items()
    }
    return json.dumps(settings, ensure_ascii=False, indent=2) + "\n"


PACKAGES = (
    "",
    ".agents",
    ".corpus",
    ".datasets",
    ".errors",
    ".evaluation",
    ".graphs",
    ".state",
    ".testing",
    ".training",
)
PACKAGES += (".tools.knowledge", ".tools.models", ".tools.retrieval")


def api() -> str:
    """Return the public Python interface, a line for each name, and the options of the methods."""
    lines = ["The public interface, written by `make sync`: a change of a line is one that users see."]
    for place in (f"ragweave{name}" for name in PACKAGES):
        module = importlib.import_module(place)  # noqa: TID251
        ours = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == place)
        names = getattr(module, "__all__", None) or [name for name in ours if name[0] != "_" and name != "T"]
        lines += ["", place, *(f"    {name}{shape(getattr(module, name))}" for name in sorted(names))]
    lines += ["", "options of every method", *(f"    {name}" for name in sorted(Options.model_fields)), "", "its own"]
    for method in METHODS.ours():
        own = sorted(method.options.model_fields.keys() - Options.model_fields.keys())
        lines += [f"    {method.name}: {', '.join(own)}"] * bool(own)
    return "\n".join(lines) + "\n"


def shape(value: Any) -> str:
    """Return the parameters of a function, or the fields and methods of a class that are ours."""
    if not inspect.isclass(value):
        return parameters(value) if inspect.isfunction(value) else ""
    members: dict[str, str] = {}
    for base in (base for base in value.__mro__ if base.__module__.startswith("ragweave")):
        for name in [*inspect.get_annotations(base), *vars(base)]:
            if not name.startswith(("_", "model_", "test_")):
                function = inspect.unwrap(getattr(vars(base).get(name), "__func__", vars(base).get(name)))
                members.setdefault(name, parameters(function) if inspect.isfunction(function) else "")
    own = vars(value).get("__init__")
    start = parameters(own) if own and not is_dataclass(value) and inspect.isfunction(own) else ""
    return f"{start}: {', '.join(name + members[name] for name in sorted(members))}" if members else start


def parameters(function: Any) -> str:
    """Return the parameters of a function, those with a default with `=`."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    given = [value for value in inspect.signature(function).parameters.values() if value.name not in ("self", "cls")]
    shown = (stars.get(value.kind, "") + value.name + "=" * (value.default is not value.empty) for value in given)
    return f"({', '.join(shown)})"


def generated() -> dict[Path, str]:
    """Return every generated file, as it should be."""
    names, settings = ROOT / "src/ragweave/names.py", ROOT / "langgraph.json"
    files = {
        ROOT / "docs/methods.md": methods(),
        ROOT / "tests/api.txt": api(),
        names: with_names(names.read_text("utf-8")),
        settings: langgraph_json(settings.read_text("utf-8")),
    }
    for page, blocks in BLOCKS.items():
        text = (ROOT / page).read_text("utf-8")
        for name, content in blocks.items():
            text = with_block(text, name, content())
        files[ROOT / page] = text
    return files


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit code."""
    changed = {path: text for path, text in generated().items() if path.read_text("utf-8") != text}
    names = ", ".join(str(path.relative_to(ROOT)) for path in changed)
    if "--check" in arguments and changed:
        sys.stderr.write(f"stale: {names}: run `make sync` and commit the result\n")
        return 1
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    sys.stderr.write(f"{names or 'everything generated is current'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
