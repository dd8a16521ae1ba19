"""Use an installed ragweave as a newcomer would: what is missing from the wheel is missed here.

    python .ci/smoke.py [COMMAND…]      # COMMAND: the command line, default `python -m ragweave`

Needs the core install alone, and an empty folder to work in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import ragweave
from ragweave import METHODS, build_chat, build_graph
from ragweave.corpus import corpus_documents
from ragweave.tools.retrieval import Bm25Retriever

MODEL = "extractive?similarity=lexical"
QUESTION = "What does BlendFilter blend?"


def check(holds: object, what: str) -> None:
    """Stop where something is not as it should be."""
    if not holds:
        raise SystemExit(f"smoke test: {what}")


def run(command: list[str], *words: str) -> str:
    """Run the command line; return what it printed."""
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)  # noqa: S603
    check(done.returncode == 0, f"{words}: {done.stderr}")
    return done.stdout


def main(command: list[str]) -> None:
    """Ask by Python and by the command line."""
    package = Path(ragweave.__file__).parent
    check((package / "py.typed").is_file(), "py.typed is not installed")
    check(version("ragweave"), "the package has no version")
    check(entry_points(group="console_scripts", name="ragweave"), "no command `ragweave`")
    retriever = Bm25Retriever.from_documents(corpus_documents())
    for name in METHODS:
        check(METHODS[name].summary, f"{name} has no summary")
    graph = build_graph("concat_pf", model=MODEL, retriever=retriever, citations=True)
    out = graph.invoke({"question": QUESTION})
    check("query" in out["answer"], f"answered {out['answer']!r}")
    check(out["citations"][0]["quotes"], "the answer has no quote")
    chat = build_chat("concat", model=MODEL, retriever=retriever)
    said = chat.invoke({"messages": [("user", QUESTION)]})["messages"][-1]
    check("query" in said.text, f"said {said.text!r}")

    run(command, "index", "--bundled", "--kb", "kb", "--embedding", "none")
    asked = run(command, "ask", QUESTION, "--kb", "kb", "--model", MODEL, "--json")
    check(json.loads(asked)["status"] == "answered", f"the command said {asked}")
    sys.stdout.write(f"ragweave {version('ragweave')} works from {package}\n")


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable, "-m", "ragweave"])
