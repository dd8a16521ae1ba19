"""`ragweave why`, with a scripted model."""

from pathlib import Path

from tests.cli.conftest import Run

from ragweave.testing import ScriptedModel

QUESTION = "Which month freezes the harbour of Varn?"


def test_the_stage_and_the_command_to_try(ragweave: Run, kb: Path, scripted: dict[str, ScriptedModel]) -> None:
    scripted["wrong"] = ScriptedModel(script=["May"])
    asked = ("why", "Who directs the museum of Varn, opened in 1932?", "--kb", str(kb), "--model", "scripted:wrong")
    done = ragweave(*asked, "--expect", "Ada Lindqvist", "-k", "1", "--method", "concat", "--retriever", "bm25")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("concat answered: May\n")
    assert "The passage with the answer was not found." in done.stdout
    command = done.stdout.splitlines()[-1]
    assert command.startswith("ragweave ask 'Who directs the museum of Varn, opened in 1932?' --kb ")
    assert command.endswith("--method concat -k 2 --retriever bm25 --model scripted:wrong")


def test_a_right_answer(ragweave: Run, kb: Path, scripted: dict[str, ScriptedModel]) -> None:
    scripted["right"] = ScriptedModel(script=["January"])
    done = ragweave("why", QUESTION, "--expect", "January", "--kb", str(kb), "--model", "scripted:right")
    assert done.stdout == "concat_pf answered: January\nThe answer is right.\n"


def test_mistakes_are_one_line(ragweave: Run, kb: Path) -> None:
    for given in ((), ("--expect", " ")):
        done = ragweave("why", QUESTION, "--kb", str(kb), *given)
        assert (done.returncode, done.stderr) == (2, "ragweave: name the right answer: --expect ANSWER\n")
    done = ragweave("why", QUESTION, "--expect", "May", "--kb", str(kb), "--retriever", "langchain_x:Retriever")
    assert done.returncode == 2
    assert "--retriever must be one of" in done.stderr
    done = ragweave("why", QUESTION, "--expect", "May", "--kb", "lance:kb")
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a knowledge base in a folder" in done.stderr
