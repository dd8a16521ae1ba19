"""`ragweave label judge|rewrite|filter` as a user meets it; kill -9 and Ctrl-C included."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.command import Run, started
from tests.openai_server import HttpFault, OpenAIServer, Reply

from ragweave.training.rows import read_rows

SHARED = Path(__file__).parents[3] / "shared" / "data"
BRIDGE = {
    "id": "b",
    "question": "When was the Old Bridge of Varn opened?",
    "answers": ["1932", "nineteen thirty-two"],
    "draft": "The Old Bridge of Varn was opened in 1932.",
}
MUSEUM = {
    "id": "m",
    "question": "Who directs the museum of Varn?",
    "answers": ["Ada Lindqvist"],
    "draft": "I do not know.",
}
CLAIMS = (
    "<Claims> <Claim(The Old Bridge of Varn was opened in 1932)> <Search(True)> "
    "<Query(Old Bridge Varn 1932)> </Claims>"
)


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"id": f"q{n}", "question": f"Q{n}?", "answers": [f"answer {n}"]} for n in range(count)]


def says(body: dict[str, Any]) -> Reply:
    number = int(re.findall(r"\d+", body["messages"][-1]["content"])[0])
    return Reply(f"It is answer {number}." if number % 2 else "I am not sure.", delay=0.01)


def asked(server: OpenAIServer) -> Counter[str]:
    return Counter(one.body["messages"][-1]["content"] for one in server.requests)


def test_judge_prints_the_counts_of_table_5(ragweave: Run, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", BRIDGE, MUSEUM, {**MUSEUM, "id": "n", "question": "Who else?"})
    done = ragweave(
        "label", "judge", "qa.jsonl", "--draft", "draft", "--out", "j.jsonl", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"Data +Known +Unknown +Dropped", done.stdout)
    assert re.search(r"plain rows +1 +1 +1", done.stdout)
    assert "dropped, to balance known and unknown: 1" in done.stdout
    assert "labelling" not in done.stderr
    assert len(read_rows(tmp_path / "j.jsonl", "judge")) == 2
    report = json.loads((tmp_path / "j.jsonl.report.json").read_text("utf-8"))
    assert report["counts"]["plain"]["known"] == 1
    again = ragweave(
        "label", "judge", "qa.jsonl", "--draft", "draft", "--out", "j.jsonl", cwd=tmp_path
    )
    assert (again.returncode, "already finished" in again.stdout) == (0, True)


def test_one_class_only_is_told(ragweave: Run, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", MUSEUM)
    done = ragweave(
        "label", "judge", "qa.jsonl", "--draft", "draft", "--out", "j.jsonl", cwd=tmp_path
    )
    assert done.returncode == 0
    assert "all rows are unknown: a judge cannot be trained on a single class" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("judge", "qa.jsonl", "--draft", "draft"), "qa.jsonl:2: the gold answer is missing"),
        (("judge", "qa.jsonl", "--proxy", "nosuch"), "unknown model 'nosuch'"),
        (("rewrite", "qa.jsonl"), "give --teacher MODEL"),
        (("filter", "qa.jsonl", "--measure", "cxmi"), "--measure cxmi needs --scorer"),
        (("filter", "qa.jsonl", "--measure", "strinc", "--kb", "none"), "none"),
        (
            ("filter", "qa.jsonl", "--measure", "strinc", "--top", "few"),
            "--top must be a positive number",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    ragweave: Run, tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    write(tmp_path / "qa.jsonl", BRIDGE, {**MUSEUM, "answers": []})
    done = ragweave("label", *args, "--out", "out.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("out.jsonl*"))


def test_bad_rows_may_be_left_out(ragweave: Run, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", BRIDGE, {**MUSEUM, "answers": []})
    args = ("label", "judge", "qa.jsonl", "--draft", "draft", "--out", "out.jsonl", "--skip-bad")
    done = ragweave(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "dropped, no gold answers: 1" in done.stdout


def test_filter_over_a_knowledge_base(ragweave: Run, kb: Path, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", BRIDGE, MUSEUM, {**BRIDGE, "id": "x", "answers": ["Ulm"]})
    args = ("label", "filter", "qa.jsonl", "--kb", str(kb), "--measure", "strinc")
    done = ragweave(*args, "--passages", "2", "--out", "silver.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 rows, 1 with an empty target" in done.stdout
    rows: Any = read_rows(tmp_path / "silver.jsonl", "filter")
    assert [[span["text"] for span in row["spans"]] for row in rows] == [
        ["The Old Bridge of Varn was opened in 1932."],
        ["Its director is Ada Lindqvist."],
        [],
    ]


@pytest.mark.loopback
def test_rewrite_with_a_teacher(ragweave: Run, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", BRIDGE)
    said = [CLAIMS.replace("The Old Bridge of Varn was", "It was"), CLAIMS]
    with OpenAIServer(said, key="sk-secret") as server:
        spec = f"openai:m?base_url={server.base_url}&api_key=sk-secret"
        args = ("label", "rewrite", "qa.jsonl", "--teacher", spec, "--draft", "draft")
        done = ragweave(*args, "--out", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = read_rows(tmp_path / "r.jsonl", "rewriter")
    assert row["target"] == f"<Questions> </Questions>\n{CLAIMS}"  # type: ignore[typeddict-item]
    for file in tmp_path.glob("r.jsonl*"):
        assert "sk-secret" not in file.read_text("utf-8")


@pytest.mark.loopback
def test_failures_exit_1_and_are_tried_again(ragweave: Run, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", *numbered(6))
    broken = {"on": True}

    def script(body: dict[str, Any]) -> Reply | HttpFault:
        return HttpFault(400) if broken["on"] and "Q3?" in str(body["messages"]) else says(body)

    with OpenAIServer(script) as server:
        spec = f"openai:m?base_url={server.base_url}&max_retries=0"
        args = ("label", "judge", "qa.jsonl", "--proxy", spec, "--out", "j.jsonl")
        done = ragweave(*args, cwd=tmp_path)
        assert done.returncode == 1
        assert "1 of 6 rows failed" in done.stderr
        assert "qa.jsonl:4" in done.stderr
        assert not (tmp_path / "j.jsonl").exists()
        broken["on"] = False
        done = ragweave(*args, "--retry-failed", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert asked(server) == {**{f"Q{n}?": 1 for n in range(6)}, "Q3?": 2}
    assert len(read_rows(tmp_path / "j.jsonl", "judge")) == 6


@pytest.mark.loopback
def test_a_refused_key_is_told_at_once(ragweave: Run, tmp_path: Path) -> None:
    write(tmp_path / "qa.jsonl", *numbered(6))
    with OpenAIServer(key="right") as server:
        spec = f"openai:m?base_url={server.base_url}&api_key=wrong"
        args = ("label", "judge", "qa.jsonl", "--proxy", spec, "--out", "j.jsonl")
        done = ragweave(*args, "--concurrency", "1", cwd=tmp_path)
        assert (done.returncode, len(server.requests)) == (1, 1)
    assert "401" in done.stderr


@pytest.mark.loopback
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_some_moment_it_goes_on(
    tmp_path: Path, ragweave: Run, how: signal.Signals
) -> None:
    pytest.importorskip("langchain_openai")
    write(tmp_path / "qa.jsonl", *numbered(60))
    with OpenAIServer(says) as server:
        spec = f"openai:m?base_url={server.base_url}&max_retries=0"
        args = ["label", "judge", "qa.jsonl", "--proxy", spec, "--concurrency", "3"]
        for moment in (7, 30):
            with started(*args, "--out", "cut.jsonl", cwd=tmp_path) as one:
                until = time.monotonic() + 60
                while server.count < moment and time.monotonic() < until:
                    time.sleep(0.002)
                one.send_signal(how)
                told = one.ended()
            assert told.returncode == (-how if how == signal.SIGKILL else 130)
            if how == signal.SIGINT:
                assert "run the same command to resume" in told.stderr
            assert not (tmp_path / "cut.jsonl").exists()
        done = ragweave(*args, "--out", "cut.jsonl", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        extra = asked(server) - Counter({f"Q{n}?": 1 for n in range(60)})
        assert len(asked(server)) == 60
        assert extra.total() <= 2 * 3
        done = ragweave(*args, "--out", "calm.jsonl", cwd=tmp_path)
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "calm.jsonl").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "model.gguf")


def test_a_local_model_drafts_and_scores(ragweave: Run, tmp_path: Path, gguf: Path) -> None:
    passages = ["It rained. The Old Bridge of Varn was opened in 1932."]
    write(tmp_path / "qa.jsonl", {**BRIDGE, "passages": passages})
    spec = f"llamacpp:{gguf}?n_ctx=2048&n_threads=1"
    args = ("label", "judge", "qa.jsonl", "--proxy", spec, "--no-balance", "--out", "j.jsonl")
    done = ragweave(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = read_rows(tmp_path / "j.jsonl", "judge")
    assert row["source"]["draft"] == spec
    args = ("label", "filter", "qa.jsonl", "--measure", "cxmi", "--scorer", spec)
    done = ragweave(*args, "--threshold", "-1000", "--out", "s.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (silver,) = read_rows(tmp_path / "s.jsonl", "filter")
    assert len(silver["spans"]) == 1  # type: ignore[typeddict-item]


def test_a_transformers_model_scores(ragweave: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    scorers = pytest.importorskip("tests.tools.scorers.test_huggingface")
    scorers.make_model("seq2seq").save_pretrained(tmp_path / "t5")
    scorers.make_tokenizer("seq2seq").save_pretrained(tmp_path / "t5")
    write(tmp_path / "qa.jsonl", {**BRIDGE, "passages": ["It rained. It was in London."]})
    args = ("label", "filter", "qa.jsonl", "--measure", "cxmi", "--scorer", "hf:t5", "--top", "all")
    done = ragweave(*args, "--threshold", "-1000", "--out", "s.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = read_rows(tmp_path / "s.jsonl", "filter")
    assert len(row["spans"]) == 2  # type: ignore[typeddict-item]
    assert row["source"]["scorer"] == "hf:t5"


@pytest.mark.skipif(not SHARED.exists(), reason="the data files do not stand beside the checkout")
def test_released_annotations_need_no_teacher(ragweave: Run, tmp_path: Path) -> None:
    file = SHARED / "slimplm" / "rewrite-llama13b-dev.jsonl.gz"
    done = ragweave("label", "rewrite", str(file), "--out", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "claims in 200 rows" in done.stdout
