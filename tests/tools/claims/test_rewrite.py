"""A query rewriter's reply, in the formats of the paper, the released models and real life."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.claims import (
    MAX_CHARACTERS,
    MAX_RECORDS,
    MAX_WORDS,
    ClaimQuery,
    QuestionQuery,
    parse_claims,
    parse_rewrite,
)
from ragweave.tools.claims.values import clean

DATA = Path(__file__).parents[4] / "shared" / "data" / "slimplm" / "rewrite-llama13b-dev.jsonl.gz"

TWO = [
    ClaimQuery("The bridge opened in 1932", True, "bridge opening year"),
    ClaimQuery("The opera house is white", True, "opera house colour"),
]


def squeeze(text):
    return re.sub(r"[\W_]+", "", text)


@pytest.mark.parametrize(
    "reply",
    [
        # the paper's form
        "<Claim> The bridge opened in 1932 <Query> bridge opening year "
        "<Claim> The opera house is white <Query> opera house colour",
        "<Claim> The bridge opened in 1932 <Query> bridge opening year, "
        "<Claim> The opera house is white <Query> opera house colour, ...",
        # Table 8's form, with and without its closers
        "<Claims> <Claim(The bridge opened in 1932)> <Search(True)> <Query(bridge opening year)> "
        "<Claim(The opera house is white)> <Search(True)> <Query(opera house colour)></Claims>",
        "<Claim(The bridge opened in 1932 <Query(bridge opening year\n"
        "<Claim(The opera house is white <Query(opera house colour",
        "<Claim<The bridge opened in 1932)> <Query(bridge opening year)>\n"
        "<Claim<The opera house is white)> <Query(opera house colour)>",
        # as XML, numbered, on lines of their own, escaped
        "<Claim>The bridge opened in 1932</Claim><Query>bridge opening year</Query>"
        "<Claim>The opera house is white</Claim><Query>opera house colour</Query>",
        "<Claim 1> The bridge opened in 1932 <Query 1> bridge opening year\n"
        "<Claim 2> The opera house is white <Query 2> opera house colour",
        "Sure!\n<Claim>\nThe bridge opened in 1932\n<Query>\nbridge opening year\n"
        "<Claim>\nThe opera house is white\n<Query>\nopera house colour\n\nI hope this helps!",
        "&lt;Claim&gt; The bridge opened in 1932 &lt;Query&gt; bridge opening year "
        "&lt;Claim&gt; The opera house is white &lt;Query&gt; opera house colour",
        # labels and lists
        "1. **Claim:** The bridge opened in 1932\n   **Query:** bridge opening year\n"
        "2. **Claim:** The opera house is white\n   **Query:** opera house colour",
        "Claim 1: The bridge opened in 1932\nQuery 1: bridge opening year\n\n"
        "Claim 2: The opera house is white\nQuery 2: opera house colour",
        "- The bridge opened in 1932 (Query: bridge opening year)\n"
        "- The opera house is white (Query: opera house colour)",
        "Claims:\n1. The bridge opened in 1932\n   - Query: bridge opening year\n"
        "2. The opera house is white\n   - Query: opera house colour",
        # JSON
        '```json\n[{"claim": "The bridge opened in 1932", "query": "bridge opening year"},\n'
        '{"query": "opera house colour", "claim": "The opera house is white"}]\n```',
        '{"claims": ["The bridge opened in 1932", "The opera house is white"], '
        '"queries": ["bridge opening year", "opera house colour"]}',
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_forms_of_the_same_claims(reply, times):
    rewrite = parse_rewrite("\n".join([reply] * times))
    assert rewrite.claims == TWO
    assert rewrite.questions == []
    assert rewrite.parsed


RELEASED = (
    "<Task(open qa)> <Timeliness(False)> <Questions> <Question(When did the bridge (1) open?)> "
    "<NeedSearch(True)> <Query(bridge opening)> <Question(What is 2 plus 2?)> <NeedSearch(False)> "
    "</Questions> <Claims> <Claim(The bridge (steel) opened in 1932)> <NeedSearch(True)> "
    "<Query(bridge 1932)> <Claim(The sky is blue)> <NeedSearch(False)> <Query()> </Claims>"
)


def test_the_released_models_form():
    rewrite = parse_rewrite(RELEASED)
    assert rewrite.questions == [
        QuestionQuery("When did the bridge (1) open?", True, "bridge opening"),
        QuestionQuery("What is 2 plus 2?", False, ""),
    ]
    assert rewrite.claims == [
        ClaimQuery("The bridge (steel) opened in 1932", True, "bridge 1932"),
        ClaimQuery("The sky is blue", False, ""),
    ]


@given(st.integers(0, len(RELEASED)))
def test_a_reply_cut_anywhere_gives_a_beginning_of_the_whole(cut):
    whole, part = parse_rewrite(RELEASED), parse_rewrite(RELEASED[:cut])
    assert [c.claim for c in part.claims] == [c.claim for c in whole.claims][: len(part.claims)]
    queries = {record.query for record in (*whole.claims, *whole.questions)}
    own = {record[0] for record in (*whole.claims, *whole.questions)}
    for record in (*part.claims, *part.questions[1:]):
        assert record.query in queries | own


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I'm sorry, I can't help with that.",
        "The bridge opened in 1932 and the opera house is white.",
        "<Claim> claim 1 <Query> query 1 <Claim> claim 2 <Query> query 2 ...",
        "<Claim(claim1)> <Search(True/False)> <Query(query1)>",
        "<Claim> ... <Query> ...",
        "<Cla",
        '{"note": "nothing to check"}',
    ],
)
def test_the_unreadable_gives_nothing_and_says_so(reply):
    assert parse_rewrite(reply)[:3] == ([], [], False)


@pytest.mark.parametrize("reply", ["<Claims> </Claims>", "[]", '{"claims": []}'])
def test_a_reply_that_says_there_is_nothing_was_read(reply):
    assert parse_rewrite(reply) == ([], [], True, 0, 0, False)


def test_a_claim_equal_to_the_question_is_dropped_and_so_is_an_echoed_question():
    question = "Who built the bridge?"
    reply = (
        "Question: who built the bridge\n1. Claim: Who built the Bridge?\n   Query: builder\n"
        "2. Claim: Bradfield built the bridge\n   Query: bridge builder"
    )
    rewrite = parse_rewrite(reply, question)
    assert rewrite.questions == []
    assert rewrite.claims == [ClaimQuery("Bradfield built the bridge", True, "bridge builder")]


def test_a_question_that_is_called_a_claim_is_a_question_and_stands_once():
    reply = (
        "<Questions> <Question(How old is it?)> <NeedSearch(True)> <Query(bridge age)> </Questions>"
        "\n<Claims> <Claim(How old is it?)> <Search(True)> <Query(bridge age)>"
        " <Claim(Who paid for it?)> <Search(True)> <Query(bridge cost)>"
        " <Claim(It is old.)> <Search(True)> <Query(bridge)>"
        " <Claim(The film is Who Paid?)> <Search(True)> <Query(film)> </Claims>"
    )
    rewrite = parse_rewrite(reply, "Who built the bridge?")
    assert [one.query for one in rewrite.questions] == ["bridge age", "bridge cost"]
    assert [one.claim for one in rewrite.claims] == ["It is old.", "The film is Who Paid?"]
    assert rewrite.dropped == 1


def test_a_rewrite_of_the_question_keeps_its_query():
    reply = "<Question(who built it)> <NeedSearch(True)> <Query(harbour bridge builder)>"
    assert parse_rewrite(reply, "Who built it?").questions == [
        QuestionQuery("who built it", True, "harbour bridge builder")
    ]


def test_sections_of_lists():
    reply = "Sub-questions:\n- Who is he\n- What is she\n\nClaims:\n- He is tall\n"
    rewrite = parse_rewrite(reply)
    assert [q.question for q in rewrite.questions] == ["Who is he", "What is she"]
    assert rewrite.claims == [ClaimQuery("He is tall", True, "He is tall")]


def test_bare_queries_are_rewrites_of_the_question():
    assert parse_rewrite("<Query> bridge year").questions == [
        QuestionQuery("bridge year", True, "bridge year")
    ]
    assert [q.query for q in parse_rewrite("Search queries:\n1. one two\n2. three").questions] == [
        "one two",
        "three",
    ]


def test_a_claim_without_a_query_is_its_own_unless_no_search_is_due():
    reply = "<Claim(One is one)> <Search(True)> <Claim(Two is two)> <Search(False)>"
    assert parse_claims(reply) == [
        ClaimQuery("One is one", True, "One is one"),
        ClaimQuery("Two is two", False, ""),
    ]


def test_two_hundred_claims_are_capped():
    reply = "".join(f"<Claim> fact number {i} <Query> look {i} " for i in range(200))
    assert len(parse_claims(reply)) == MAX_RECORDS


def test_long_queries_are_cut():
    words = "<Claim> short <Query> " + "word " * 1000
    assert parse_claims(words) == [ClaimQuery("short", True, " ".join(["word"] * MAX_WORDS))]
    solid = "<Claim> short <Query> " + "x" * 5000
    assert parse_claims(solid)[0].query == "x" * MAX_CHARACTERS


def test_what_was_cut_and_left_out_is_counted():
    assert parse_rewrite(RELEASED)[3:] == (0, 0, False)
    long = "<Claim> " + "c " * 100 + "<Query> " + "q" * 5000 + "\n<Claim> short <Query> few words"
    assert parse_rewrite(long)[3:] == (2, 0, False)
    many = "".join(f"<Claim> fact number {i} <Query> look {i} " for i in range(40))
    assert parse_rewrite(many)[3:] == (0, 40 - MAX_RECORDS, False)
    doubled = "\n".join(["<Claim> a fact <Query> look"] * 3 + ["<Claim> Who is it? <Query> who"])
    assert parse_rewrite(doubled, "who is it")[3:] == (0, 3, False)
    only_dropped_are_long = "<Claim> " + "who " * 90 + "<Query> x"
    assert parse_rewrite(only_dropped_are_long, " ".join(["who"] * MAX_WORDS))[3:] == (0, 1, False)


@pytest.mark.parametrize("cut", range(RELEASED.index("<Questions>") + 1, len(RELEASED)))
def test_a_reply_cut_inside_a_list_says_so(cut):
    between = RELEASED.index("<Claims>")
    assert parse_rewrite(RELEASED[:cut]).truncated or cut in (between - 1, between)


@pytest.mark.parametrize(
    ("reply", "truncated"),
    [
        ("<Claim> one fact <Query> look one <Claim> two fa", True),
        ("<Claim> one fact <Query> look one <Claim> two facts <Query> look two", False),
        ("<Claim> one fact <Claim> two facts", False),
        ("<Claim(one fact <Query(look one\n<Claim(two facts <Query(look two", False),
        ("Claim 1: one fact\nQuery 1: look one\nClaim 2: two facts\nQuery 2:", True),
        ("Claim 1: one fact\nQuery 1: look one\nClaim 2: two fa", True),
        ("- one fact\n- two facts", False),
        ('[{"claim": "one fact", "query": "look one"}, {"claim": "two', True),
        ('[{"claim": "one fact", "query": "look one"}, {"claim": "two"', True),
        ('Here you are: [{"claim": "one [fact", "query": "a 6\\" pipe"}] {ok}', False),
        ("<Cla", True),
        ("", False),
    ],
)
def test_a_reply_that_breaks_off(reply, truncated):
    assert parse_rewrite(reply).truncated is truncated


@given(st.data(), st.text(alphabet=' "\\[]{}a'))
def test_json_breaks_off_wherever_it_is_cut(data, text):
    record = {"claim": f"a fact {text}", "query": f"b {text}"}
    whole = json.dumps([record, {**record, "claim": f"another {text}"}])
    cut = data.draw(st.integers(len('[{"claim":'), len(whole) - 1))
    assert not parse_rewrite(whole).truncated
    assert parse_rewrite(whole[:cut]).truncated


PIECES = [
    *("<Claim>", "<Query>", "<Claim(", "<Query(", ")>", "</Claims>", "<Claims>", "<Question("),
    *("<NeedSearch(", "True", "False", "<Search(True)>", "Claim:", "Query 1:", "\n- ", "\n1. "),
    *('{"claim": "', '", "query": "', '"}', "[", "]", "```", "**", "|", "(", ")", "<", ">", "\n"),
    *("red fox", "blue bird ", "who is it?", " ", "claim 1", "…", "none", "é 日本", "</think>"),
]
replies = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))


@given(replies, st.sampled_from(["", "red fox", "who is it?"]))
def test_whatever_the_reply_nothing_is_invented(reply, question):
    rewrite = parse_rewrite(reply, question)
    plain = squeeze(re.sub(r"</?\s?[A-Za-z_]{1,14}\s?/?>", " ", reply))
    for record in (*rewrite.claims, *rewrite.questions):
        assert record[0]
        assert squeeze(record[0]) in plain or squeeze(record[0]) in squeeze(reply)
        assert squeeze(record.query) in plain or squeeze(record.query) in squeeze(reply)
        assert record.query or not record.need_search
        assert len(record.query.split()) <= MAX_WORDS
    assert len(set(rewrite.claims)) == len(rewrite.claims) <= MAX_RECORDS
    assert rewrite.parsed or not (rewrite.claims or rewrite.questions)


phrases = st.text(alphabet="abcd efgh", min_size=3).map(lambda t: " ".join(t.split())).filter(bool)
claims = st.lists(
    st.builds(
        ClaimQuery, phrases.map("fact {}".format), st.just(True), phrases.map("ask {}".format)
    ),
    max_size=6,
    unique_by=lambda claim: claim.claim,
)


@given(claims, st.sampled_from(["tags", "parens", "labels", "json"]))
def test_what_is_written_is_read_back(records, form):
    if form == "json":
        reply = json.dumps(
            [{"claim": c.claim, "needSearch": True, "query": c.query} for c in records]
        )
    else:
        shape = {
            "tags": "<Claim> {0} <Query> {2} ",
            "parens": "<Claim({0})> <Search({1})> <Query({2})>\n",
            "labels": "- Claim: {0}\n  Search: {1}\n  Query: {2}\n",
        }[form]
        reply = "".join(shape.format(*c) for c in records)
    assert parse_claims(reply) == records


def test_gpt4s_annotations_in_the_released_form_are_read_back():
    if not DATA.exists():
        pytest.skip(f"needs the authors' rewrite data: ../shared/data/slimplm/{DATA.name}")
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    total = right = 0
    for row in rows:
        wanted = row["llama13b_without_search_gpt4sep_claims"]
        reply = " ".join(
            f"<Claim({c['claim']})> <NeedSearch({c['needSearch']})> <Query({c['query']})>"
            for c in wanted
        )
        read = {squeeze(c.claim): c for c in parse_claims(f"<Claims> {reply} </Claims>")}
        total += len(wanted)
        for c in wanted:
            found = read.get(squeeze(c["claim"]))
            same = found is not None and found.need_search == c["needSearch"]
            right += same and (not c["query"] or squeeze(found.query) == squeeze(c["query"]))
    assert total > 1000
    assert right / total >= 0.99


def test_a_full_stop_before_the_end_of_a_tag_is_none_of_the_claim() -> None:
    read = parse_rewrite("<Claim(The film came out in 2023).> <Search(False)> <Query()>")
    assert [one.claim for one in read.claims] == ["The film came out in 2023"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "John Steinbeck) writer of both The Ganymede Takeover (1967)",
            "John Steinbeck) writer of both The Ganymede Takeover (1967)",
        ),
        ("The Longest Day (1962))", "The Longest Day (1962)"),
        ("(The Longest Day (1962)", "The Longest Day (1962)"),
        ("(1962) and (1967", "(1962) and (1967"),
        ("(The Longest Day)", "The Longest Day"),
    ],
)
def test_only_brackets_without_a_partner_are_dropped(value: str, text: str) -> None:
    assert clean(value) == (text, False)
