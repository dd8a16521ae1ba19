"""A judge's reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.claims import parse_judgement


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("<Known(True)>", True),
        ("<Known(False)>", False),
        ("Known (True)", True),
        ("Known(False)", False),
        ("known(TRUE)", True),
        ("**Known (False)**", False),
        ("```\n<Known(True)>\n```", True),
        ('{"known": false}', False),
        ("Known: Yes", True),
        ("True", True),
        ("False.", False),
        ("The draft names the author, so Known (True), I think.", True),
        ("<Known(True)>\n<Known(True)>", True),
        ("&lt;Known(False)&gt;", False),
        ("<think>Known(True)? Hmm.</think><Known(False)>", False),
        ("Known (True / False): False", False),
        ("It is not Known(True) but Known(False).", False),
        ("The draft doesn't err, so Known(True).", True),
        ("I am not unsure. <Known(True)>", True),
        ('{"note": "not long", "known": true}', True),
        ("Don't retrieve: <Known(True)>", True),
        # cut off
        ("<Known(Tr", True),
        ("<Known(F", False),
        ("<Known(", None),
        # unreadable
        ("", None),
        ("Known (True / False)", None),
        ("Known(True) or Known(False)", None),
        ("It is not known (true)", None),
        ("unknown (true)", None),
        ("Not <Known(True)>", None),
        ("Not <Known(False)>", None),
        ("I can't say it is Known(True)", None),
        ("I can’t say that it is `Known(True)`.", None),
        ("I cannot call this Known (True).", None),
        ("This isn't Known(True).", None),
        ("It was never **Known (True)**.", None),
        ("Known(True) is not what I would say.", None),
        ("<Known(True)> would be wrong.", None),
        ("Not <Known(Tr", None),
        ("It is true that the bridge is known.", None),
        ("I can't say.", None),
    ],
)
def test_replies(reply, wanted):
    assert parse_judgement(reply) is wanted


@given(
    st.lists(
        st.sampled_from(["<Known(", "True", "False", ")>", "Known", " ", "not ", "(", "yes", "/"])
    ).map("".join)
    | st.text()
)
def test_never_raises_and_says_nothing_without_a_verdict_word(reply):
    verdict = parse_judgement(reply)
    assert verdict in (True, False, None)
    if not any(word in reply.lower() for word in ("t", "f", "yes", "no")):
        assert verdict is None


@given(st.booleans(), st.text(alphabet="abc .,\n", max_size=30), st.text(alphabet="xyz .\n"))
def test_prose_around_a_verdict_changes_nothing(known, before, after):
    assert parse_judgement(f"{before} <Known({known})> {after}") is known


@given(
    st.sampled_from(["not", "can't say it is", "cannot say", "isn't", "never", "won't say that"]),
    st.sampled_from(["Known({})", "<Known({})>", "**Known ({})**", '"Known({})"', "known: {}"]),
    st.booleans(),
)
def test_a_negated_verdict_says_nothing(denial, form, known):
    assert parse_judgement(f"This is {denial} {form.format(known)}") is None
