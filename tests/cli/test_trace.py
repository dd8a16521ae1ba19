"""A recorded run: what it holds, how it is read, and the page made of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langgraph.graph import START
from tests.command import LEXICAL, Run
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.cli.record import plain_output, read_run, run_record, run_steps, taken_of, to_json
from ragweave.cli.trace import trace, trace_page
from ragweave.cli.watch import Watch, follow
from ragweave.errors import UsageError
from ragweave.graphs import chat_over
from ragweave.graphs.frame import Draft, DrawnGraph
from ragweave.state import RAGState

EVIL = "<script>document.title='taken over'</script><img src=x onerror=alert(1)>"
QUESTION = "Where is the bridge?"
Record = Callable[..., dict[str, Any]]


def second_knows(seen: Seen) -> str:
    """Concat does not know; the second passage alone does."""
    return "Varn" if seen.passages == ["Varn has a bridge."] else "Unknown"


@pytest.fixture
def recorded(tmp_path: Path) -> Record:
    """Run a method and read its record back from a file."""

    async def run(
        question: str, texts: tuple[str, ...], replies: Any, method: str, options: Any
    ) -> Any:
        model = ScriptedChat(replies=replies, usage=(7, 2))
        graph = build_graph(
            method, model=model, retriever=ListRetriever(documents=documents(*texts)), **options
        )
        watch = Watch(live=False)
        try:
            await follow(graph, {"question": question}, watch)
        finally:
            text = to_json(run_record(graph, question, watch))
            (tmp_path / "run.json").write_text(text, "utf-8")

    def record(
        question: str = QUESTION,
        texts: tuple[str, ...] = ("A river.", "Varn has a bridge."),
        replies: Any = second_knows,
        method: str = "concat_pf",
        **options: Any,
    ) -> Any:
        import asyncio

        try:
            asyncio.run(run(question, texts, replies, method, options))
        except ValueError as error:
            assert "out of order" in str(error)
        return read_run(tmp_path / "run.json")

    return record


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
async def test_a_number_that_json_does_not_know_is_null(odd: float) -> None:
    about = {"score": odd, "path": [{"boost": odd}], "page": 1.5}
    doc = Document(id="p", page_content="Varn has a bridge.", metadata=about)
    graph = build_graph(
        "concat", model=ScriptedChat(replies=["Varn"]), retriever=ListRetriever(documents=[doc])
    )
    watch = Watch(live=False)
    output = await follow(graph, {"question": QUESTION}, watch)

    def strict(text: str) -> Any:
        raise AssertionError(f"{text} is not JSON")

    for record in (plain_output(output), run_record(graph, QUESTION, watch), {"x": [odd]}):
        read = json.loads(to_json(record), parse_constant=strict)
        for kept in read.get("passages", ()):
            assert kept["metadata"]["score"] is None
            assert kept["metadata"]["path"] == [{"boost": None}]
            assert kept["metadata"]["page"] == 1.5


async def test_a_conversation_shows_its_methods_notes_under_the_method() -> None:
    echo = ScriptedChat(replies=[QUESTION])  # which is no answer
    given = ListRetriever(documents=documents("A river.", "Varn has a bridge."))
    first, later = Watch(live=False), Watch(live=False)
    method = build_graph("post_fusion", model=echo, retriever=given)
    await follow(method, {"question": QUESTION}, first)
    await follow(chat_over(method, echo), {"messages": [("user", QUESTION)]}, later)
    events = [(note["node"], note["event"]) for note in later.notes]
    assert len(events) > 2
    assert events == [(note["node"], note["event"]) for note in first.notes]
    steps = {step["node"]: step["notes"] for step in run_steps(later)}
    assert steps == {"turn": [], "post_fusion": later.notes, "reply": []}


async def test_notes_that_a_graph_hands_up_count_once() -> None:
    said: Any = {"step": 1, "node": "inner", "event": "search_repeated", "detail": {}}
    inner = Draft(RAGState)
    inner.add_node("inner", lambda _: {"notes": [said, said]})
    inner.add_edge(START, "inner")
    outer = Draft(RAGState)
    outer.add_node("method", inner.compile())
    outer.add_edge(START, "method")
    watch = Watch(live=False)
    await follow(DrawnGraph(**vars(outer.compile())), {"question": QUESTION}, watch)
    assert watch.notes == [said, said]


def test_each_step_has_its_prompts_replies_and_passages(recorded: Record) -> None:
    record = recorded()
    assert (record["method"], record["question"], record["answer"]) == (
        "concat_pf",
        QUESTION,
        "Varn",
    )
    steps = {step["node"]: step for step in record["trace"]}
    assert steps["retrieve"]["searched"] == [{"query": QUESTION, "found": 2, "error": ""}]
    found = steps["retrieve"]["passages"]["retrieved for question"]
    assert [one["text"] for one in found] == ["A river.", "Varn has a bridge."]
    (asked,) = steps["concat"]["asked"]
    assert asked["role"] == "answer"
    assert [one["role"] for one in asked["prompt"]] == ["system", "human"]
    assert "Varn has a bridge." in asked["prompt"][-1]["text"]
    assert asked["reply"] == "Unknown"
    alone = [step["asked"][0] for step in record["trace"] if step["node"] == "post_fusion"]
    replies = {"Varn has a bridge." in one["prompt"][-1]["text"]: one["reply"] for one in alone}
    assert replies == {True: "Varn", False: "Unknown"}
    assert [step["step"] for step in record["trace"]] == [0, 1, 2, 3, 4, 5, 5, 6]


def test_the_path_taken(recorded: Record) -> None:
    shape, taken = taken_of(recorded())
    assert taken.nodes["post_fusion"] == 2
    not_taken = {line[:2] for line in shape.edges} - taken.edges
    assert not_taken == {
        ("begin", "collect"),
        ("collect", "concat_vote"),
        ("concat_vote", "__end__"),
    }
    _, straight = taken_of(recorded(replies=["Varn"]))
    assert ("concat_vote", "__end__") in straight.edges
    assert "post_fusion" not in straight.nodes


def test_a_failed_run_is_recorded_up_to_its_fault(recorded: Record) -> None:
    record = recorded(replies=[ValueError("out of order")])
    assert "answer" not in record or not record["answer"]
    failed = record["trace"][-1]
    assert failed["node"] == "concat"
    assert "out of order" in failed["asked"][0]["error"]
    assert failed["error"]
    page = trace_page(record)  # type: ignore[arg-type]
    assert "The run did not finish" in page
    assert "out of order" in page


class Parsed(HTMLParser):
    """The page's tags with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_texts_of_the_run_stay_text_and_nothing_is_loaded(recorded: Record) -> None:
    page = trace_page(recorded(f"{EVIL}?", (EVIL, "</pre></details><b>x</b>"), [EVIL], "concat"))
    parsed = Parsed(page)
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"script", "img", "b-x", "iframe", "object", "link"}
    attributes = {name for _, found in parsed.tags for name in found}
    assert not {name for name in attributes if name.startswith("on")} | attributes & {"src"}
    links = [found["href"] or "" for _, found in parsed.tags if "href" in found]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import", page)
    assert parsed.text.count(EVIL) >= 4
    assert "</pre></details><b>x</b>" in parsed.text


def test_clicking_a_node_leads_to_its_first_step(recorded: Record) -> None:
    parsed = Parsed(trace_page(recorded()))  # type: ignore[arg-type]
    anchors = [found["id"] for tag, found in parsed.tags if tag == "details" and "id" in found]
    assert anchors == list(dict.fromkeys(anchors))
    links = {found["href"] for tag, found in parsed.tags if tag == "a"}
    assert links == {f"#{anchor}" for anchor in anchors}


BROKEN = {
    "no file": (None, "cannot be read"),
    "no text": (b"\xff\xfe\x00", "not UTF-8"),
    "no JSON": (b"{", "is not a recorded run"),
    "without a trace": (b'{"method": "concat", "question": "q"}', "trace: Field required"),
    "another file": (b"[1, 2]", "is not a recorded run"),
    "an edge to nowhere": (
        b'{"method": "m", "question": "q", "trace": [], "notes": [], "graph": {"nodes": ["a"], '
        b'"edges": [{"source": "a", "target": "b", "label": "", "conditional": false}]}}',
        "an edge has no node",
    ),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_run(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as error:
        trace(path)
    assert "\n" not in str(error.value)


def test_the_command_records_and_makes_the_page(ragweave: Run, kb: Path, tmp_path: Path) -> None:
    ask = ("ask", "When was the Old Bridge opened?", "--kb", str(kb), *LEXICAL)
    done = ragweave(*ask, "--trace-file", "run.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["answer"] == "1932"
    done = ragweave("trace", "run.json", "--html", "run.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The Old Bridge of Varn" in (tmp_path / "run.html").read_text("utf-8")
    assert "concat_vote" in ragweave("trace", "run.json", cwd=tmp_path).stdout
    done = ragweave(*ask, "--trace-file", "nowhere/run.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "no such folder: nowhere" in done.stderr


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
HEADLESS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium found to look at the page with")
def test_a_browser_shows_the_page_and_runs_no_script(recorded: Record, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    record = recorded(texts=(EVIL, "Varn has a bridge."))
    page.write_text(trace_page(record), "utf-8")  # type: ignore[arg-type]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [str(BROWSER), *HEADLESS, profile, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    parsed = Parsed(done.stdout)
    assert f"<title>concat_pf: {QUESTION}</title>" in done.stdout
    assert EVIL in parsed.text
    kinds = [found.get("class") or "" for _, found in parsed.tags]
    assert sum(kind == "box on" for kind in kinds) == 7
    assert sum(kind.startswith("line") and kind.endswith(" off") for kind in kinds) == 3


def test_a_record_has_passages_as_mappings_everywhere_and_no_repr() -> None:
    class Engine:
        def __repr__(self) -> str:
            return "<Engine /home/somebody/model.gguf>"

    doc = Document("Old.", id="p", metadata={"made": date(2020, 1, 2)})
    output = {"passages": [doc], "retrieved": {"question": [doc]}, "config": {"model": Engine()}}
    read = json.loads(to_json(plain_output(output)))
    assert read["retrieved"]["question"] == read["passages"]
    assert read["passages"][0]["text"] == "Old."
    assert read["passages"][0]["metadata"] == {"made": "2020-01-02"}
    assert read["config"] == {"model": "Engine"}


@pytest.mark.parametrize(("stopped", "truncated"), [("rounds", True), ("", False)])
def test_a_record_of_an_earlier_version_is_read(
    recorded: Record, tmp_path: Path, stopped: str, truncated: bool
) -> None:
    recorded()
    stored = json.loads((tmp_path / "run.json").read_text("utf-8"))
    del stored["truncated"]
    (tmp_path / "run.json").write_text(json.dumps({**stored, "stopped": stopped}), "utf-8")
    record = read_run(tmp_path / "run.json")
    assert (record["truncated"], "stopped" in record) == (truncated, False)
    assert ("stopped by a limit on rounds" in trace_page(record)) is truncated


def test_the_page_shows_what_supports_the_answer(recorded: Record) -> None:
    texts = ("A river.", f"It is old. Varn has a bridge, {EVIL}. It rains.")
    reply = "Varn has a bridge. Elephants dance there."
    given = {"replies": [reply], "method": "concat", "answer_type": "long", "citations": True}
    page = trace_page(recorded(texts=texts, **given))
    assert 'Varn has a bridge.<sup><a href="#quote-1">[1]</a></sup>' in page
    assert '<mark class="unsupported"' in page.split("Elephants dance there.")[0][-120:]
    assert '<mark id="quote-1"><b>1</b> Varn has a bridge, &lt;script&gt;' in page
    assert EVIL not in page
    assert "<b>Citations</b>" not in trace_page(recorded(texts=texts))


def test_the_answering_step_stands_open_and_no_other(recorded: Record) -> None:
    tags = Parsed(trace_page(recorded())).tags
    opened = [found.get("id") for tag, found in tags if tag == "details" and "open" in found]
    assert opened == [None]  # the second of two `post_fusion`s: the first one has the anchor
    assert trace_page(recorded()).split("<details open>")[1].count("<b>post_fusion</b>") == 1
    straight = Parsed(trace_page(recorded(replies=["Varn"]))).tags
    assert [found["id"] for tag, found in straight if "open" in found] == ["node-concat"]
    failed = Parsed(trace_page(recorded(replies=[ValueError("out of order")]))).tags
    assert [found["id"] for tag, found in failed if "open" in found] == ["node-concat"]


def test_ranks_begin_at_one_scores_are_rounded_and_paths_are_short(recorded: Record) -> None:
    record = recorded()
    (found,) = [step for step in record["trace"] if step["node"] == "retrieve"]
    doc = found["passages"]["retrieved for question"][0]
    doc["metadata"] = {"rank": 0, "score": 0.0325224748, "title": "Varn", "source": "/a/b/varn.md"}
    page = trace_page(record)
    assert "1. <b>Varn</b>" in page
    assert "score 0.0325</div>" in page
    assert '<span title="/a/b/varn.md">varn.md</span>' in page


def test_the_page_has_a_dark_side_and_a_switch_without_a_script(recorded: Record) -> None:
    page = trace_page(recorded())
    assert "color-scheme:light dark" in page
    assert ":root:has(#theme:checked){color-scheme:dark}" in page
    assert [found["type"] for tag, found in Parsed(page).tags if tag == "input"] == ["checkbox"]
    assert '<meta name="viewport"' in page
