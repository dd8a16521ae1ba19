from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import LEXICAL, Run
from tests.gguf_bytes import with_new_type

DATA = Path(__file__).parents[3] / "shared" / "data" / "slimplm" / "judge-llama7b-dev.jsonl.gz"


def test_doctor_tells_what_is_there(ragweave: Run) -> None:
    done = ragweave("doctor")
    assert done.returncode == 0, done.stderr
    assert "langgraph" in done.stdout
    assert "threads" in done.stdout or "cores" in done.stdout


def test_doctor_on_a_file_that_is_no_model(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_text("version https://git-lfs.github.com/spec/v1\n", "utf-8")
    done = ragweave("doctor", "--model", "llamacpp:m.gguf?n_ctx=64", cwd=tmp_path)
    assert done.returncode == 1
    assert "PROBLEM" in done.stdout
    assert "m.gguf" in done.stdout
    assert_names_builds(done.stdout)
    assert "Traceback" not in done.stderr


def test_label_needed_writes_what_skr_knn_reads(ragweave: Run, tmp_path: Path) -> None:
    rows = [
        {"question": "Who wrote Hamlet?", "answers": ["Shakespeare"], "draft": "Shakespeare."},
        {"question": "Who won in Varn?", "answers": ["Ada"], "draft": "I am not sure."},
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    done = ragweave(
        "label", "needed", "qa.jsonl", "--out", "t.jsonl", "--draft", "draft", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "2 questions, of which 1 need retrieval" in done.stdout
    made = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    assert [one["needed"] for one in made] == [False, True]


@pytest.mark.skipif(not DATA.exists(), reason="the shared judge data is not beside the project")
def test_skr_knn_on_real_labels(ragweave: Run, tmp_path: Path, kb: Path) -> None:
    done = ragweave("label", "needed", str(DATA), "--out", "t.jsonl", cwd=tmp_path)
    assert "400 questions, of which 200" in done.stdout
    asked = ragweave(
        *("ask", "When was the Old Bridge opened?", "--kb", str(kb), *LEXICAL),
        *("-m", "skr_knn", "-o", "training=t.jsonl", "--trace"),
        cwd=tmp_path,
    )
    assert asked.returncode == 0, asked.stderr
    assert "neighbours" in asked.stdout


def test_label_mistakes_exit_2(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "q"}\n', "utf-8")
    for source, said in (("missing.jsonl", "missing.jsonl"), ("bad.jsonl", "row 1")):
        done = ragweave("label", "needed", source, "--out", "t.jsonl", cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert not (tmp_path / "t.jsonl").exists()
    (tmp_path / "good.jsonl").write_text('{"question": "q", "needed": true}\n', "utf-8")
    done = ragweave("label", "needed", "good.jsonl", "--out", "no/t.jsonl", cwd=tmp_path)
    assert (done.returncode, "no/t.jsonl" in done.stderr) == (2, True)


def test_doctor_measures_a_model_and_names_faster_builds(ragweave: Run, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    tiny_gguf.write(tmp_path / "m.gguf")
    done = ragweave(
        "doctor",
        "--model",
        "llamacpp:m.gguf?n_threads=1&repack=off&flash_attention=on",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "tokens a second, generation" in done.stdout
    assert "extra buffers off: as requested" in done.stdout
    assert_names_builds(done.stdout)
    quick = ragweave("doctor", "--model", "m.gguf", "--no-speed", cwd=tmp_path)
    assert "generation" not in quick.stdout
    assert_names_builds(quick.stdout)


def assert_names_builds(shown: str) -> None:
    """Check that the builds for GPUs are named, but where there is one already."""
    for folder in ("/whl/cu", "/whl/rocm", "/whl/vulkan", "/whl/metal"):
        assert folder in shown or "sees a GPU" in shown


@pytest.mark.parametrize(
    ("query", "said"),
    [("repack=fast", "repack"), ("n_thread=1", "n_thread"), ("n_threads=two", "n_threads")],
)
def test_doctor_refuses_settings_that_no_load_would_take(
    ragweave: Run, tmp_path: Path, query: str, said: str
) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    tiny_gguf.write(tmp_path / "m.gguf")
    done = ragweave("doctor", "--model", f"m.gguf?{query}", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_doctor_compares_both_layouts(ragweave: Run, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    tiny_gguf.write(tmp_path / "m.gguf")
    done = ragweave(
        *("doctor", "--model", "m.gguf?n_threads=1"),
        cwd=tmp_path,
        env={"RAGWEAVE_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("prefill") == 2
    kept = "also in later loads" in done.stdout
    verdicts = list((tmp_path / "cache" / "llamacpp").iterdir())
    assert len(verdicts) == (3 if kept else 2), "library, model, and which layout is faster"
    assert kept is ("no clear difference" not in done.stdout)


UNUSABLE = {
    "base.gguf": "no chat template",
    "new.gguf": "qwen99",
    "cut.gguf": "incomplete",
    "vectors.gguf": "embedding model",
    "tools.gguf": "it may expect tools",
    "type.gguf": "does not support its quantisation (type 999)",
    "good.gguf?n_ctx=2000000000": "of memory, but only",
}


@pytest.fixture(scope="module")
def unusable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of model files."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="writing a test model needs the gguf package")
    import tiny_gguf

    folder = tmp_path_factory.mktemp("unusable")
    good = tiny_gguf.write(folder / "good.gguf").read_bytes()
    tiny_gguf.write(folder / "base.gguf", template=None)
    tiny_gguf.write(folder / "new.gguf", architecture="qwen99")
    tiny_gguf.write(folder / "vectors.gguf", architecture="bert")
    tiny_gguf.write(folder / "tools.gguf", template="{% for one in tools %}{{ one }}{% endfor %}")
    (folder / "cut.gguf").write_bytes(good[:-1000])
    (folder / "type.gguf").write_bytes(with_new_type(good))
    return folder


@pytest.mark.parametrize(("file", "said"), UNUSABLE.items(), ids=UNUSABLE)
def test_a_model_file_that_cannot_be_used_exits_2(
    ragweave: Run, unusable: Path, file: str, said: str
) -> None:
    asked = ("ask", "Who?", "-m", "direct", "--model", f"llamacpp:{file}")
    done = ragweave(*asked, cwd=unusable)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
