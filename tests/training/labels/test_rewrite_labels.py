from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.scripted import ScriptedChat
from tests.training.labels.rows import SLIMPLM, label, made, read, write

from ragweave.errors import UsageError
from ragweave.tools.claims import ClaimQuery, QuestionQuery, Rewrite, parse_rewrite
from ragweave.training.labels import RewriteLabeler, canonical, target_text
from ragweave.training.labels.rules import leading_pronoun, support
from ragweave.training.rows import read_rows

QUESTION = "When was the Old Bridge of Varn opened, and how long is it?"
DRAFT = "The Old Bridge of Varn was opened in 1932. It is 212 metres long."
ROW = {"id": "a", "question": QUESTION, "d": DRAFT}
GOOD = (
    "<Questions> <Question(When was the Old Bridge of Varn opened?)> <NeedSearch(True)> "
    "<Query(Old Bridge of Varn opening year)> </Questions>\n"
    "<Claims> <Claim(The Old Bridge of Varn was opened in 1932)> <Search(True)> "
    "<Query(Old Bridge of Varn opened 1932)> <Claim(The Old Bridge of Varn is 212 metres long)> "
    "<Search(False)> <Query()> </Claims>"
)
PRONOUN = GOOD.replace("<Claim(The Old Bridge of Varn is", "<Claim(It is")
INVENTED = GOOD.replace("is 212 metres long", "collapsed during heavy flooding last winter")


def taught(tmp_path: Path, *replies: Any, **settings: Any) -> tuple[list[Any], ScriptedChat]:
    teacher = ScriptedChat(replies=list(replies))
    labeler = RewriteLabeler(teacher=teacher, teacher_spec="openai:t", draft="d", **settings)
    return made(write(tmp_path / "qa.jsonl", [ROW]), labeler), teacher


def test_a_good_reply_is_taken_as_it_is(tmp_path: Path) -> None:
    (row,), teacher = taught(tmp_path, GOOD)
    assert len(teacher.seen) == 1
    assert teacher.seen[0].text == f"Draft answer: {DRAFT}\nQuestion: {QUESTION}"
    assert row["target"] == GOOD
    assert row["draft"] == DRAFT
    assert row["source"]["repaired"] is False
    assert row["source"]["left_out"] == {}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (PRONOUN, "begins with 'it'"),
        (INVENTED, "says what the draft does not say"),
        ("I cannot help with that.", "nothing in it is in the format"),
        (GOOD[:-60], "breaks off before its end"),
        (GOOD.replace("<Query(Old Bridge of Varn opened 1932)>", ""), "no search query of its own"),
        (
            GOOD.replace("Old Bridge of Varn opened 1932", "cheap flights tomorrow"),
            "about something else",
        ),
    ],
)
def test_a_broken_rule_is_named_and_mended(tmp_path: Path, bad: str, told: str) -> None:
    (row,), teacher = taught(tmp_path, bad, GOOD)
    assert len(teacher.seen) == 2
    assert told in teacher.seen[1].text
    assert bad.strip() == teacher.seen[1].messages[-2].text
    assert row["target"] == GOOD
    assert row["source"]["repaired"] is True


def test_a_claim_that_stays_wrong_is_left_out_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [ROW])
    teacher = ScriptedChat(replies=[PRONOUN])
    labeler = RewriteLabeler(teacher=teacher, draft="d")
    done = label(file, labeler, tmp_path / "out.jsonl")
    assert len(teacher.seen) == 2
    assert done.total("left out: pronoun") == 1
    assert [one.claim for one in parse_rewrite(read(done.path)[0]["target"]).claims] == [
        "The Old Bridge of Varn was opened in 1932"
    ]


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (["No idea."], "unreadable reply"),
        (["<Claims> <Claim(It was late)> <Search(True)> <Query(late)> </Claims>"], "mostly"),
        ([GOOD[:-60]], "reply breaks off"),
        (["<Claims> </Claims>"], "neither claims nor questions"),
    ],
)
def test_a_reply_that_stays_wrong_is_dropped_with_its_reason(
    tmp_path: Path, replies: list[str], reason: str
) -> None:
    with pytest.raises(UsageError, match=f"no question gave a row: 1 .*{reason}"):
        taught(tmp_path, *replies)


def test_paid_replies_are_kept_where_none_gives_a_row(tmp_path: Path) -> None:
    for calls in (2, 0):
        teacher = ScriptedChat(replies=["No idea."])
        file = write(tmp_path / "qa.jsonl", [ROW])
        with pytest.raises(UsageError, match="no question gave a row"):
            label(file, RewriteLabeler(teacher=teacher, draft="d"), tmp_path / "out.jsonl")
        assert len(teacher.seen) == calls


def test_an_empty_draft_has_no_claims_and_costs_no_call(tmp_path: Path) -> None:
    teacher = ScriptedChat(replies=[GOOD])
    file = write(tmp_path / "qa.jsonl", [ROW, {**ROW, "id": "b", "d": ""}])
    done = label(file, RewriteLabeler(teacher=teacher, draft="d"), tmp_path / "out.jsonl")
    assert len(teacher.seen) == 1
    assert done.dropped == {"an empty draft, which has no claims": 1}


def test_a_proxy_drafts_and_gold_answers_are_not_needed(tmp_path: Path) -> None:
    proxy = ScriptedChat(replies=[DRAFT])
    labeler = RewriteLabeler(teacher=ScriptedChat(replies=[GOOD]), proxy=proxy, proxy_spec="p")
    (row,) = made(write(tmp_path / "qa.jsonl", [{"question": QUESTION}]), labeler)
    assert (row["id"], row["draft"], row["target"]) == ("1", DRAFT, GOOD)
    assert row["source"]["draft"] == "p"


def test_neither_teacher_nor_annotation(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"qa.jsonl:1: has no annotation.*--teacher"):
        made(write(tmp_path / "qa.jsonl", [ROW]), RewriteLabeler())
    with pytest.raises(UsageError, match="give --proxy"):
        RewriteLabeler(teacher=ScriptedChat())
    with pytest.raises(UsageError, match="leave out --proxy"):
        RewriteLabeler(proxy=ScriptedChat())


@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        ("He wrote Hamlet", False, "he"),
        ("However, they were late", False, "they"),
        ("This film won an award", False, "this"),
        ("It is a bridge in Varn", False, "it"),
        ("It is likely that the film opens in June", False, None),
        ("Shakespeare said he wrote it", False, None),
        ("When was he born?", True, "he"),
        ("Is it true that water boils?", True, None),
        ("Which bridge did they open?", True, None),
    ],
)
def test_pronouns_that_hide_a_name(text: str, asked: bool, found: str | None) -> None:
    assert leading_pronoun(text, asked=asked) == found


def test_support_in_scripts_without_spaces() -> None:
    assert support("老桥于一九三二年开通", "瓦恩的老桥于一九三二年开通。") > 0.8
    assert support("市政厅在山上", "瓦恩的老桥于一九三二年开通。") < 0.5


words = st.text("abcdé 1-'’.", min_size=1, max_size=30).filter(lambda t: t.strip(" -'’.") != "")
claims = st.lists(st.builds(ClaimQuery, words, st.booleans(), words), max_size=5)
questions = st.lists(st.builds(QuestionQuery, words, st.booleans(), words), max_size=5)
wild = st.text(st.sampled_from(list("ab<>()[]{}`/|:*\"'\n ,.?&;claimquestion")), max_size=40)
wild_claims = st.lists(st.builds(ClaimQuery, wild, st.booleans(), wild), max_size=4)
wild_questions = st.lists(st.builds(QuestionQuery, wild, st.booleans(), wild), max_size=4)


@given(st.one_of(questions, wild_questions), st.one_of(claims, wild_claims), st.text(max_size=20))
@example([], [ClaimQuery("a < b) > c <Claim(x", True, "</Claims>")], "")
@example([QuestionQuery("``` </think> what", True, "&lt;query&gt;")], [], "what")
def test_a_target_reads_back_to_its_records(
    asked: list[QuestionQuery], said: list[ClaimQuery], question: str
) -> None:
    done = canonical(Rewrite(asked, said, parsed=True), question)
    if done is None:
        return
    text, records = done
    again = parse_rewrite(text, question)
    assert again == records
    assert again.parsed
    assert not (again.truncated or again.cut or again.dropped)
    assert target_text(again.questions, again.claims) == text


@given(st.text(max_size=300))
def test_any_reply_s_records_have_a_target(reply: str) -> None:
    read_once = parse_rewrite(reply)
    assert canonical(read_once._replace(cut=0, dropped=0, truncated=False), "") is not None


@pytest.mark.skipif(not SLIMPLM.exists(), reason="the shared data is not beside the project")
def test_the_authors_annotations_need_no_teacher(tmp_path: Path) -> None:
    file = SLIMPLM / "rewrite-llama13b-dev.jsonl.gz"
    done = label(file, RewriteLabeler(), tmp_path / "rewrite.jsonl")
    rows = read_rows(done.path, "rewriter")
    assert len(rows) == 200
    assert done.total("claims") > 1000
    for row in rows:
        target = row["target"]  # type: ignore[typeddict-item]
        again = parse_rewrite(target, row["question"])
        assert target_text(again.questions, again.claims) == target
        assert again.claims or again.questions
        assert row["draft"]  # type: ignore[typeddict-item]
