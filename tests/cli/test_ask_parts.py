"""Trained parts on the command line: by option or flag, relative paths, mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import LEXICAL, Run
from tests.evaluation.towns import towns
from tests.tiny_parts import finish, make_scorer, make_writer

from ragweave.cli.main import app
from ragweave.cli.options import by_role, with_named
from ragweave.errors import UsageError
from ragweave.trained.forms import documents, generator_input

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

Call = Callable[..., tuple[str, str]]
QUESTION = "When was the Old Bridge opened?"
PAIRS = [("when was the old bridge opened?", "1932", True), ("is", "not", False)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judge, a filter and a generator, and folders that are no good part."""
    root = tmp_path_factory.mktemp("parts")
    make_scorer(root / "judge", "judge", PAIRS)
    make_scorer(root / "filter", "filter", PAIRS, threshold=0.0)
    text = "It is 212 metres long."
    closed = generator_input(QUESTION, []).text
    shown = documents([{"id": "x", "title": "", "text": text}])
    make_writer(
        root / "generator", "generator", {closed: "in 1932", generator_input("q", shown).text: "x"}
    )
    (root / "unfinished").mkdir()
    (root / "unfinished" / "training.json").write_text("{}", "utf-8")
    newer = finish(root / "newer", "judge", "cross-encoder")
    card = json.loads((newer / "part.json").read_text("utf-8"))
    (newer / "part.json").write_text(json.dumps({**card, "format": 9}), "utf-8")
    (finish(root / "unsafe", "judge", "cross-encoder") / "model.bin").write_bytes(b"\x80\x04.")
    return root


@pytest.fixture
def call(parts: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `ragweave` here, among the parts, with the network closed; return what it printed."""
    monkeypatch.chdir(parts)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*args: str, cwd: Path = parts) -> tuple[str, str]:
        monkeypatch.chdir(cwd)
        capfd.readouterr()
        app(list(args), standalone_mode=False)
        told = capfd.readouterr()
        return told.out, told.err

    return run


def asked(call: Call, *args: str) -> dict[str, Any]:
    out, err = call("ask", QUESTION, *args, "--json", "--trace")
    assert err == "", "loading a part says nothing"
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.mark.parametrize("named", [("-o", "judge=judge/"), ("--judge", "judge/")])
def test_a_judge_decides(call: Call, kb: Path, named: tuple[str, str]) -> None:
    method = ("-m", "slimplm", "--kb", str(kb), *LEXICAL)
    known = asked(call, *method, named[0], f"{named[1]}?threshold=0.0")
    assert "direct" in [step["node"] for step in known["trace"]]
    unknown = asked(call, *method, named[0], f"{named[1]}?threshold=1.0")
    assert "retrieve" in [step["node"] for step in unknown["trace"]]


def test_a_filter_cuts_and_a_generator_answers(call: Call, kb: Path) -> None:
    filco = ("-m", "filco", "--kb", str(kb), *LEXICAL)
    passages = asked(call, *filco, "-o", "filter=filter/", "-o", "top=1")["passages"]
    assert len(passages) == 1
    assert passages[0]["metadata"]["full_length"] > len(passages[0]["text"])
    assert asked(call, "-m", "direct", "-o", "generator=part:generator")["answer"] == "in 1932"
    assert asked(call, "-m", "direct", "--model", "./generator")["answer"] == "in 1932"


def test_a_process_of_its_own(ragweave: Run, kb: Path, parts: Path) -> None:
    slimplm = ("ask", QUESTION, "-m", "slimplm", "--kb", str(kb), *LEXICAL)
    done = ragweave(*slimplm, "-o", "judge=judge/", cwd=parts, env={"HF_HUB_OFFLINE": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    done = ragweave(*slimplm, "-o", "judge=filter/", cwd=parts)
    assert done.returncode == 2
    assert done.stderr == (
        "ragweave: filter/: was trained as a filter, but a judge is needed here\n"
    )


MISTAKES = {
    "no such folder": (("-o", "judge=nowhere/"), "nowhere: no such folder"),
    "no such filter": (("-m", "filco", "-o", "filter=nowhere/"), "no such folder"),
    "unfinished": (("-o", "judge=unfinished/"), "its training did not finish"),
    "wrong model": (("--model", "judge/"), "was trained as a judge, but a generator is needed"),
    "wrong filter": (("-m", "filco", "-o", "filter=judge/"), "but a filter is needed here"),
    "newer": (("-o", "judge=newer/"), "has format 9"),
    "unsafe": (("--judge", "unsafe/"), "model.bin may be a pickle"),
    "unknown filter": (("-m", "filco", "-o", "filter=best"), "filter must be one of lexical"),
    "named twice": (("--judge", "judge/", "-o", "judge=other/"), "judge is given twice"),
    "no name": (("-o", "judge="), "judge= is empty"),
    "no kind": (("--model", "gpt"), "unknown model 'gpt'"),
}


@pytest.mark.parametrize(("args", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line(call: Call, args: tuple[str, ...], said: str) -> None:
    """`UsageError` is what the command line turns into a line and exit code 2."""
    method = () if "-m" in args else ("-m", "slimplm")
    with pytest.raises(UsageError) as told:
        call("ask", "q", *method, *args)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_compare_takes_parts_too(call: Call, kb: Path) -> None:
    methods = ("--methods", "slimplm,filco,concat")
    given = ("-o", "judge=judge/?threshold=0", "-o", "filter=filter/", *LEXICAL)
    given = (*given, "-o", "second_look=false")
    out, _ = call("compare", QUESTION, "--kb", str(kb), *methods, *given, "--json")
    told = {one["method"]: one for one in json.loads(out)}
    assert told["slimplm"]["sources"] == []
    assert len(told["filco"]["sources"]) == 1 <= len(told["concat"]["sources"])


def test_a_run_keeps_to_the_parts_that_it_began_with(call: Call, tmp_path: Path) -> None:
    data, out = towns(tmp_path, 3), tmp_path / "run"
    make_scorer(tmp_path / "judge", "judge", PAIRS)
    make_scorer(tmp_path / "filter", "filter", PAIRS, threshold=0.0)
    args = ("eval", f"jsonl:{data}", "--methods", "slimplm,filco[filter=filter/]")
    args = (*args, "-o", "judge=judge/?threshold=1", *LEXICAL, "--out", str(out))
    _, err = call(*args, cwd=tmp_path)
    assert "6 answered, 0 failed of 6" in err
    settings = json.loads((out / "run.json").read_text("utf-8"))
    where = tmp_path.resolve()
    assert settings["models"]["judge"] == f"part:{where}/judge?threshold=1"
    assert settings["systems"][1]["options"]["filter"] == f"part:{where}/filter"
    assert set(settings["parts"]) == {f"part:{where}/judge?threshold=1", f"part:{where}/filter"}
    call("eval", "--resume", str(out), cwd=Path("/"))
    make_scorer(tmp_path / "filter", "filter", PAIRS, threshold=0.1)
    with pytest.raises(UsageError, match="filter: was trained again after the run began"):
        call("eval", "--resume", str(out))
    with pytest.raises(UsageError, match="other settings: parts"):
        call(*args, cwd=tmp_path)


def test_a_run_with_a_wrong_part_never_begins(call: Call, tmp_path: Path) -> None:
    data, out = towns(tmp_path, 2), tmp_path / "run"
    run = ("eval", f"jsonl:{data}", "--methods", "slimplm", *LEXICAL, "--out", str(out))
    with pytest.raises(UsageError, match="was trained as a filter, but a judge is needed here"):
        call(*run, "-o", "judge=filter/")
    assert not out.exists(), "the directory is free for a run that is right"


def test_a_study_takes_parts_but_varies_what_it_varies(call: Call, tmp_path: Path) -> None:
    data = towns(tmp_path, 2)
    study = ("study", "slimplm", f"jsonl:{data}", *LEXICAL, "--values", "full,w/o QF")
    call(*study, "--out", str(tmp_path / "s"), "-o", "judge=judge/?threshold=1", "-o", "k=2")
    settings = json.loads((tmp_path / "s" / "run" / "run.json").read_text("utf-8"))
    assert settings["models"]["judge"].endswith("judge?threshold=1")
    assert [one["options"]["k"] for one in settings["systems"]] == [2, 2]
    study = ("study", "filco", f"jsonl:{data}", *LEXICAL, "--out", str(tmp_path / "f"))
    with pytest.raises(UsageError, match="this study varies filter itself"):
        call(*study, "-o", "filter=filter/")
    with pytest.raises(UsageError, match="has an option 'margin'"):
        call(*study, "-o", "margin=1")


def test_options_that_name_a_model_join_the_flags() -> None:
    flags = {"model": "extractive", "judge": None, "rewriter": None, "proxy": "openai:m"}
    models, rest = with_named(flags, ["judge=judge/", "k=3", "generator = generator/", "filter=f/"])
    assert models == {"model": "generator/", "judge": "judge/", "proxy": "openai:m"}
    assert rest == ["k=3", "filter=f/"]
    assert by_role(models)["answer"] == "generator/"
    assert with_named({"judge": "judge/"}, ["judge=judge/"])[0] == {"judge": "judge/"}
    for twice in (["judge=a/", "judge=b/"], ["judge=a/", "judge=a/"]):
        with pytest.raises(UsageError, match="given twice"):
            with_named({}, twice)
    with pytest.raises(UsageError, match="given twice"):
        with_named({"model": "openai:m"}, ["generator=generator/"])
