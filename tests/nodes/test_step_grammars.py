"""Whatever the grammars of steps allow is read as a step."""

from __future__ import annotations

import re
from re._parser import parse as sre_parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.react_reply import parse_react, read_last
from ragweave.nodes.self_ask import parse_self_ask
from ragweave.nodes.step_grammars import (
    Written,
    notes_form,
    react_form,
    rewrite_form,
    self_ask_form,
)
from ragweave.state import AnswerType
from ragweave.tools.claims import parse_rewrite
from ragweave.tools.text.reply import MARKS, is_echo

LETTERS = st.characters(categories=["Lu", "Ll", "Nd"], max_codepoint=0x24F)


def texts(without: str) -> st.SearchStrategy[str]:
    """Texts as a grammar has them: a letter or digit, then anything but a few characters.

    The marks of a thinking block are not among them: what stands before its end is no reply.
    """
    others = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=without)
    made = st.builds(str.__add__, LETTERS, st.text(others, max_size=40))
    return made.filter(
        lambda one: (
            not any(
                mark in one.lower() for pair in MARKS for mark in (pair[0].lower(), pair[1].lower())
            )
        )
    )


@given(thought=texts("[]"), query=texts("[]"), number=st.integers(1, 9))
def test_a_held_search_is_read(thought: str, query: str, number: int) -> None:
    said = parse_react(f"Thought {number}: {thought}\nAction {number}: Search[{query}]", "short")
    if not is_echo(query):
        assert said.action == "search"
        assert said.argument in " ".join(query.split())
        assert len(said.argument) >= len(" ".join(query.strip("*_`\"'“” \t").split()))


@given(thought=texts("[]"), answer=texts("[]"))
def test_a_held_finish_is_read_as_what_ends(thought: str, answer: str) -> None:
    reply = f"Thought 2: {thought}\nAction 2: Finish[{answer}]"
    said = parse_react(reply, "short")
    assert said.action == "finish" or said.rejected
    assert read_last(reply, "short").action == "finish"


@given(query=texts("?"))
def test_a_held_follow_up_is_read(query: str) -> None:
    said = parse_self_ask(f"Yes.\nFollow up: {query}?", "short", first=True)
    assert said.kind == "follow_up" or is_echo(f"{query}?") or query.strip() in ("no", "none")


@given(answer=texts(""))
def test_a_held_final_answer_is_read(answer: str) -> None:
    said = parse_self_ask(f"No.\nSo the final answer is: {answer}", "short", first=True)
    assert said.kind == "final"


@given(st.lists(st.tuples(texts("<>"), texts("<>")), min_size=1, max_size=4, unique=True))
def test_a_held_rewrite_is_read(records: list[tuple[str, str]]) -> None:
    body = " ".join(f"<Claim({a})> <Search(True)> <Query({b})>" for a, b in records)
    asked = "<Question(Who built it?)> <NeedSearch(True)> <Query(builder)>"
    read = parse_rewrite(f"<Questions> {asked} </Questions>\n<Claims> {body} </Claims>", "Q")
    assert read.parsed
    assert not read.truncated
    assert read.questions[0].query == "builder"
    kept = len(read.claims) + len(read.questions) - 1  # a claim that asks is a question
    assert kept + read.dropped >= len({a.casefold() for a, _ in records}) - 1


@pytest.mark.parametrize(
    "form",
    [react_form(2, "short", last=True), self_ask_form("short", first=True), notes_form(1, "short")],
)
@pytest.mark.parametrize(
    "answer", ["-40", "\u221240", "+3", "$5", "-€40", "(5 of 7)", ".NET", "40"]
)
def test_an_answer_may_begin_with_its_sign(form: Written, answer: str) -> None:
    (rule,) = re.findall(r"^answer ::= (.*)$", form.grammar, re.MULTILINE)
    pattern = rule.replace(" ", "")  # what GBNF writes here is a regular expression too
    assert re.fullmatch(pattern, answer)
    assert not re.fullmatch(pattern, "-")
    assert not re.fullmatch(pattern, "... 40")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("builder of the bridge", True),
        ("Titanic (1997 film)", True),
        ("The Longest Day (1962) director (film)", True),
        ("John Steinbeck) writer of both The Ganymede Takeover (1967)", False),
        ("The Ganymede Takeover (1967", False),
        ("x" * 161, False),
    ],
)
def test_a_rewriters_text_closes_the_brackets_that_it_opens(text: str, fits: bool) -> None:
    rules = dict(line.split(" ::= ") for line in rewrite_form().grammar.splitlines())
    pair = rules["pair"].replace('"("', r"\(").replace('")"', r"\)").replace(" ", "")
    pattern = rules["text"].replace("pair", f"(?:{pair})").replace(" ", "")
    assert bool(re.fullmatch(pattern, text)) is fits


TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\[(?:[^\]\\]|\\.)*\](?:\{[\d,]+\})?)|([a-z]+)|(\|)')


def pattern_of(grammar: str, rule: str = "root") -> str:
    """Return a grammar of ours as a regular expression."""
    rules = dict(line.split(" ::= ") for line in grammar.splitlines())

    def part(found: re.Match[str]) -> str:
        said, chosen, name, other = found.groups()
        if said is not None:
            return re.escape(said.encode("ascii").decode("unicode_escape"))
        return chosen or other or f"(?:{pattern_of(grammar, name)})"

    return "".join(map(part, TOKEN.finditer(rules[rule])))


@pytest.mark.parametrize("kind", ["short", "yes_no"])
def test_a_form_knows_the_longest_reply_that_it_allows(kind: AnswerType) -> None:
    for form in (
        react_form(1, kind, last=False),
        react_form(12, kind, last=True),
        self_ask_form(kind, first=True),
        self_ask_form(kind, first=False),
        notes_form(11, kind),
    ):
        shortest, longest = sre_parse(pattern_of(form.grammar)).getwidth()
        assert 0 < shortest < longest <= form.most
        if kind == "short":
            assert form.most < longest + 5


def test_a_held_sign_is_read() -> None:
    assert read_last("Thought 2: It is cold.\nAction 2: Finish[-40]", "short").argument == "-40"
    said = parse_self_ask("No.\nSo the final answer is: -40", "short", first=True)
    assert said.text == "-40"


@pytest.mark.parametrize(
    ("form", "name", "most"),
    [
        (react_form(1, "short", last=False), "query", 320),
        (react_form(1, "short", last=False), "answer", 320),
        (self_ask_form("short", first=True), "query", 320),
        (self_ask_form("short", first=True), "answer", 320),
        (rewrite_form(), "text", 160),
    ],
)
def test_a_text_has_room_for_a_question_said_again(form: Written, name: str, most: int) -> None:
    (rule,) = re.findall(rf"^{name} ::= (.*)$", form.grammar, re.MULTILINE)
    pattern = rule.split(" pair")[0].replace(" ", "")
    assert re.fullmatch(pattern, "a" * most)
    assert not re.fullmatch(pattern, "a" * (most + 3))
