"""Ids in a knowledge filter's reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.claims import parse_ids

PIECES = [
    *[
        "0",
        "1",
        "2",
        "3",
        "4",
        "7",
        "1932",
        "0-2",
        "[0,",
        "2]",
        "(1)",
        "3.",
        "2.5",
        "-1",
        "4%",
        "$3",
        "#2",
        "0,1",
    ],
    *[
        "knowledge",
        "Knowledge",
        "knowledges",
        "passage",
        "id",
        "ids",
        "relevant",
        "irrelevant",
        "not",
        "none",
        "None",
        "no",
    ],
    *[
        "and",
        "or",
        "to",
        "is",
        "are",
        ":",
        ",",
        ";",
        ".",
        "-",
        "\n",
        "*",
        "**",
        "```",
        "[",
        "]",
        "the",
        "bridge",
        "opened",
        "in",
        "only",
        "except",
        "but",
    ],
    "The relevant ones are",
    "</think>",
    "Answer:",
]
replies = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES)).map(" ".join))


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        # nothing but ids
        ("0, 2", [0, 2]),
        ("1,3,4", [1, 3, 4]),
        ("[0, 2]", [0, 2]),
        ("0 and 2", [0, 2]),
        ("0, 1, and 4.", [0, 1, 4]),
        ("0-2", [0, 1, 2]),
        ("knowledge 0 to knowledge 2", [0, 1, 2]),
        ("3, 0", [0, 3]),
        ("0, 2\n0, 2", [0, 2]),
        ("0\n2\n3", [0, 2, 3]),
        ("- 0\n- 2", [0, 2]),
        ("```\n[0, 2]\n```", [0, 2]),
        ("**0, 2**", [0, 2]),
        ("<think>0 and 1 perhaps</think>2", [2]),
        # labelled
        ("knowledge 3", [3]),
        ("Knowledge 0, Knowledge 2", [0, 2]),
        ("1. Knowledge 0\n2. Knowledge 3", [0, 3]),
        ("Relevant ids: 0, 2 (they mention the bridge of 1932)", [0, 2]),
        ("knowledge 2: The bridge opened in 1932", [2]),
        ("Passage #4 helps.", [4]),
        # conclusions
        ("Knowledge 0 is about 3 bridges.\nSo the relevant knowledge ids are 0 and 2.", [0, 2]),
        ("0 and 2 are relevant.", [0, 2]),
        ("Step 1: read. Step 2: compare.\nAnswer: 4", [4]),
        ("Removed: 1, 3\nKept: 0, 2, 4", [0, 2, 4]),
        ("The irrelevant ones are 0 and 1, the relevant ones are 2 and 3.", [2, 3]),
        # one by one
        ("knowledge 0 is relevant. knowledge 1 is not relevant.", [0]),
        ("Knowledge 0: relevant, as it doesn't stop.\nKnowledge 1: Irrelevant.", [0]),
        ("Irrelevant:\n- knowledge 1\nRelevant:\n- knowledge 2", [2]),
        ("None, except knowledge 2 is relevant", [2]),
        ("The relevant ids are 1 (Cedar Bridge) and 3 (Osk).", [1, 3]),
        ("Relevant: 1 (it names the bridge), 3 (the river)", [1, 3]),
        # none
        ("None", []),
        ("No relevant knowledge.", []),
        ("none\n\nKnowledge 1 is about another bridge.", []),
        ("None. Knowledge 1 mentions a bridge, but not when it opened.", []),
        ("None. But knowledge 1 is relevant.", [1]),
        ("None. Passage 2 is the answer.", [2]),
        ("None. However, knowledge 3 contains the answer.", [3]),
        ("Relevant: 1, 2. Not relevant: 3, 4.", [1, 2]),
        ("The relevant one is knowledge 1 (Osk); knowledge 2 (Orrin) is irrelevant.", [1]),
        ("The relevant one is 1 (Osk), and knowledge 2 (Orrin) is not.", [1]),
        ("[]", []),
        ("None of knowledges 0-4 are relevant.", []),
        ("All of them are irrelevant to the question.", []),
        (". ".join(f"knowledge {i} is not relevant" for i in range(5)), []),
        # all
        ("All of them are relevant.", [0, 1, 2, 3, 4]),
        ("all", [0, 1, 2, 3, 4]),
        ("Answer: all", [0, 1, 2, 3, 4]),
        ("The relevant ones are: all of the above.", [0, 1, 2, 3, 4]),
        ("All 5 passages are helpful.", [0, 1, 2, 3, 4]),
        ("Every passage is relevant", [0, 1, 2, 3, 4]),
        ("They are all relevant.", [0, 1, 2, 3, 4]),
        # all or none but for some
        ("No knowledge except 2 is relevant.", [2]),
        ("None of the knowledge except knowledge 2 and 3 is relevant.", [2, 3]),
        ("None are relevant except 2.", [2]),
        ("All except 0 and 3 are relevant.", [1, 2, 4]),
        ("All but knowledge 2 are irrelevant.", [2]),
        ("All passages are relevant, except for passage 3.", [0, 1, 2, 4]),
        ("All except 2.", [0, 1, 3, 4]),
        ("All but 2 of the passages are relevant.", None),
        ("All but 2 passages are relevant.", None),
        ("It was closed all but 3 years.", None),
        # the numbers of a list are no ids
        ("1) knowledge 2\n2) knowledge 3", [2, 3]),
        ("(1) knowledge 2", [2]),
        ("Relevant:\n1) knowledge 0\n2) knowledge 3\n3) knowledge 4", [0, 3, 4]),
        ("- 1) 3", [3]),
        ("1) 3\n2) 4", [3, 4]),
        ("1 - knowledge 3", [3]),
        ("Relevant: 1) knowledge 0, 2) knowledge 3, 3) knowledge 4", [0, 3, 4]),
        ("Item 1: knowledge 2", [2]),
        ("(0) (2)", [0, 2]),
        ("(1) and (3)", [1, 3]),
        ("(knowledge 2) knowledge 3", [2, 3]),
        ("knowledge0, knowledge3", [0, 3]),
        ("doc1", [1]),
        # out of range
        ("0, 7", [0]),
        ("7", None),
        ("knowledge 1932", None),
        # nothing that says which
        ("", None),
        ("There are 2 relevant passages.", None),
        ("It opened in 1932, 3 years late.", None),
        ("The answer is 3.", None),
        ("1 of the 5", None),
        ("0.5", None),
        ("Not all of them are relevant.", None),
        ("If all of them are relevant, say so.", None),
        ("All of them are relevant. Knowledge 1 is not relevant.", None),
        ("Irrelevant: knowledge 1, knowledge 3", None),
        ("There is no relevant date in knowledge 1.", None),
    ],
)
def test_replies(reply, wanted):
    assert parse_ids(reply, 5) == wanted


@given(replies, st.integers(0, 6))
def test_whatever_the_reply_ids_are_in_range_ascending_and_single(reply, count):
    ids = parse_ids(reply, count)
    assert ids is None or (ids == sorted(set(ids)) and set(ids) <= set(range(count)))


@given(replies)
def test_every_id_stands_in_the_reply_or_in_a_range_of_it(reply):
    written = {int(n) for n in "".join(c if c in "0123456789" else " " for c in reply).split()}
    for one in parse_ids(reply, 5) or []:
        assert {one, one + 1} & written or (min(written) < one < max(written))


@given(
    st.sets(st.integers(0, 9), min_size=1).map(sorted),
    st.sampled_from(["{}", "[{}]", "Relevant ids: {}", "Knowledge {}", "The relevant ids are {}."]),
    st.sampled_from([", ", " and ", " "]),
)
def test_what_models_write_is_read_back(ids, form, join):
    assert parse_ids(form.format(join.join(map(str, ids))), 10) == ids


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True),
    st.sampled_from(["{}) ", "({}) ", "{}. ", "[{}] ", "{} - ", "* {}) ", "#{} ", "{} ", "- "]),
    st.sampled_from(["knowledge {}", "Passage #{}", "knowledge{}", "id: {}", "sentence {}."]),
    st.sampled_from(["", "Relevant:\n", "These help:\n\n", "The relevant ones are:\n"]),
    st.integers(0, 5),
)
def test_the_numbers_of_a_list_are_never_ids(ids, marker, label, heading, first):
    items = [marker.format(n) + label.format(one) for n, one in enumerate(ids, start=first)]
    assert parse_ids(heading + "\n".join(items), 10) == sorted(ids)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True),
    st.sampled_from(["{}) ", "({}) ", "{}. "]),
    st.sampled_from(["knowledge {}", "passage #{}", "knowledge{}"]),
    st.sampled_from([", ", "; ", " ", " and "]),
    st.sampled_from(["", "Relevant: ", "I keep "]),
)
def test_nor_are_those_of_a_list_inside_a_line(ids, marker, label, join, heading):
    items = [marker.format(n) + label.format(one) for n, one in enumerate(ids, start=1)]
    assert parse_ids(heading + join.join(items), 10) == sorted(ids)


@given(
    st.sets(st.integers(0, 5), min_size=1, max_size=5).map(sorted),
    st.sampled_from([", ", " and "]),
    st.sampled_from(["", "knowledge ", "passages "]),
    st.booleans(),
)
def test_all_but_some_is_the_rest(ids, join, label, relevant):
    said = "relevant" if relevant else "irrelevant"
    reply = f"All except {label}{join.join(map(str, ids))} are {said}."
    rest = [one for one in range(6) if one not in ids]
    assert parse_ids(reply, 6) == (rest if relevant else ids)


@given(st.text(alphabet="abc 2 19 .\n", max_size=60).map(lambda text: f"abc {text} abc"))
def test_numbers_inside_prose_are_no_ids(reply):
    lines = [line for line in reply.splitlines() if not any(c.isalpha() for c in line)]
    if not any(line.strip() for line in lines) and "." not in reply:
        assert parse_ids(reply, 30) is None


@pytest.mark.parametrize(
    "unit", ["0 ", "0   ", "[1", "knowledge #0 ", "0, and ", "<", "(0)", "no "]
)
def test_long_replies_without_sense_are_read_in_one_go(unit):
    ids = parse_ids(unit * 20_000 + "?", 2)
    assert ids is None or set(ids) <= {0, 1}


@pytest.mark.parametrize(
    ("reply", "count", "ids"),
    [
        ("1,2", 2, [0, 1]),
        ("1, 2, 3", 2, [0, 1]),
        ("2", 2, [1]),
        ("1", 2, [1]),
        ("1, 0", 2, [0, 1]),
        ("0, 2", 2, [0]),
        ("1, 11", 13, [1, 11]),
        ("The relevant ones are 1 and 3.", 3, [0, 2]),
    ],
)
def test_a_list_that_names_the_count_counts_from_one(
    reply: str, count: int, ids: list[int]
) -> None:
    assert parse_ids(reply, count) == ids


@pytest.mark.parametrize(
    ("reply", "positions"),
    [
        ("2", [1]),
        ("1, 4", [0, 3]),
        ("item 2 and item 3 help", [1, 2]),
        ("all but 2 are relevant", [0, 2, 3]),
        ("sentence 1 is irrelevant, sentence 2 is relevant", [1]),
        ("0, 2", [0, 2]),
        ("0, 4", [3]),
        ("[1, 3]", [0, 2]),
        ("5", None),
        ("none", []),
        ("all", [0, 1, 2, 3]),
    ],
)
def test_ids_may_run_from_one(reply: str, positions: list[int] | None) -> None:
    assert parse_ids(reply, 4, first=1) == positions


@given(st.sets(st.integers(0, 8), min_size=1), st.sampled_from([0, 1]))
def test_a_list_in_the_prompts_own_numbers_is_read_back(chosen: set[int], first: int) -> None:
    reply = ", ".join(str(one + first) for one in sorted(chosen))
    both = len({0, 9} & {one + first for one in chosen}) == 1 and first != (0 in chosen)
    assert both or parse_ids(reply, 9, first=first) == sorted(chosen)


@pytest.mark.parametrize(
    ("reply", "positions"),
    [
        ("Knowledge 0: Cedar Bridge - not relevant\nKnowledge 1: Ada Moreno - relevant", [1]),
        ("Knowledge 0: Cedar Bridge is irrelevant.\nKnowledge 1: Ada Moreno is relevant.", [1]),
        ("Knowledge 0: Cedar Bridge - no\nKnowledge 1: Ada Moreno - no", []),
        ("Knowledge 0: Cedar Bridge | It is not dense.\nKnowledge 1: Ada Moreno", [0, 1]),
        ("Knowledge 2: No Road Home | Not a long book.", [2]),
        ("Knowledge 2: No Road Home", [2]),
        ("Knowledge 2: No Road Home - not relevant\nKnowledge 0: Cedar Bridge - relevant", [0]),
        ("Knowledge 2: No Road Home\nKnowledge 0: Cedar Bridge - not relevant", [2]),
    ],
)
def test_a_copied_line_counts_unless_it_says_no(reply: str, positions: list[int]) -> None:
    titles = ["Cedar Bridge", "Ada Moreno", "No Road Home"]
    count = 2 if positions == [] else 3
    assert parse_ids(reply, count, titles[:count]) == positions
