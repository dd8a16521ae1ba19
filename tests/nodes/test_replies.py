"""Reading answers off replies, in the shapes that models really produce."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.undressed import undressed

from ragweave.nodes.replies import concluding, only_states, parse_answer, read_answer
from ragweave.state import AnswerType
from ragweave.tools.text.reply import PromptParts
from ragweave.tools.text.unknown import UNKNOWN

LONG = "The passages describe many things about the city. " * 200

SHORT = [
    ("Paris", "Paris"),
    ("Paris.", "Paris"),
    ('the film "Jaws"', 'the film "Jaws"'),
    ('So the answer is the film "Jaws".', 'the film "Jaws"'),
    ('"Jaws" is the film', '"Jaws" is the film'),
    ('"Jaws" and "Heat"', '"Jaws" and "Heat"'),
    ('"The film "Jaws" of 1975"', 'The film "Jaws" of 1975'),
    ("the film 'Jaws'", "the film 'Jaws'"),
    ("the film “Jaws”.", "the film “Jaws”"),
    ("the film ‘Jaws’", "the film ‘Jaws’"),
    ("“The film ‘Jaws’”", "The film ‘Jaws’"),
    ("电影“大白鲨”", "电影“大白鲨”"),
    ('电影"大白鲨"', '电影"大白鲨"'),
    ("'O'Neill's'", "O'Neill's"),
    ('Jaws"', "Jaws"),
    ('1978"', "1978"),
    ("5'10\"", "5'10\""),
    ("  \n Paris \n", "Paris"),
    ("**Paris**", "Paris"),
    ('"Paris"', "Paris"),
    ("“Hey Jude”.", "Hey Jude"),
    ("```\nParis\n```", "Paris"),
    ("```text\nParis\n```", "Paris"),
    ("Answer: Paris", "Paris"),
    ("**Answer:** Paris", "Paris"),
    ("**Answer**: Paris.", "Paris"),
    ("### Answer: Paris", "Paris"),
    ("Short answer: Paris", "Paris"),
    ("The answer is Paris.", "Paris"),
    ("The answer is: **Paris**.", "Paris"),
    ("Passage 1 says so. So the answer is Paris.", "Paris"),
    ("So the answer is Rome. Wait, no. So the answer is Paris.", "Paris"),
    ("Thinking it through.\n\n**Final answer:** Paris", "Paris"),
    ("Final Answer\n\nParis", "Paris"),
    ("<think>Rome? The answer is Rome.</think>\nParis", "Paris"),
    ("<thinking>\nSo the answer is Rome\n</thinking>\n\nAnswer: Paris", "Paris"),
    ("Rome? The answer is Rome.\n</think>\n\nParis", "Paris"),
    ("<think>Rome, or perhaps", UNKNOWN),
    ("<answer>Paris</answer>", "Paris"),
    ("So the answer is $\\boxed{Paris}$.", "Paris"),
    ('{"answer": "Paris"}', "Paris"),
    ('```json\n{"answer": "Paris"}\n```', "Paris"),
    ("Paris\nThe passage says that the Louvre is there.", "Paris"),
    ("U.S.", "U.S."),
    ("The answer is the U.S.", "the U.S."),
    ("Washington, D.C.", "Washington, D.C."),
    ("J. R. R. Tolkien", "J. R. R. Tolkien"),
    ("So the answer is J. R. R. Tolkien.", "J. R. R. Tolkien"),
    ("7.", "7"),
    ("The answer is 1.5.", "1.5"),
    ("1,234,567", "1,234,567"),
    ("$5", "$5"),
    ("C++", "C++"),
    ("C#", "C#"),
    ("* Paris", "Paris"),
    ("巴黎。", "巴黎"),
    ("Die Antwort lautet Paris", "Paris"),
    ("The Unknown Soldier", "The Unknown Soldier"),
    ("None", "None"),
    ("Unknown", UNKNOWN),
    ("unknown.", UNKNOWN),
    ("**Unknown**", UNKNOWN),
    ("So the answer is Unknown.", UNKNOWN),
    ("The passages do not say who built it.", UNKNOWN),
    ("", UNKNOWN),
    ("\n \t", UNKNOWN),
    ("...", UNKNOWN),
    ("``` ```", UNKNOWN),
    (LONG + "So the answer is Paris.", "Paris"),
    (LONG.replace(". ", ".\n") + "\nAnswer: Paris", "Paris"),
    ("The answer is", UNKNOWN),
]

YES_NO = [
    ("Yes", "Yes"),
    ("no.", "No"),
    ("**Yes**, because both are films.", "Yes"),
    ("Yes, they are.", "Yes"),
    ("True", "Yes"),
    ("false", "No"),
    ("So the answer is yes.", "Yes"),
    ("Both were born in 1950. Answer: No", "No"),
    ("```\nNo\n```", "No"),
    ("<think>No? yes!</think>Yes", "Yes"),
    ("Nobody knows", UNKNOWN),
    ("Paris", UNKNOWN),
    ("Unknown", UNKNOWN),
    ("", UNKNOWN),
]


@pytest.mark.parametrize(("reply", "expected"), SHORT)
def test_short(reply: str, expected: str) -> None:
    assert parse_answer(reply, "short") == expected


@pytest.mark.parametrize(("reply", "expected"), YES_NO)
def test_yes_no(reply: str, expected: str) -> None:
    assert parse_answer(reply, "yes_no") == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("It is Paris. It has been since 987.", "It is Paris. It has been since 987."),
        ("One.\n\nTwo.", "One.\n\nTwo."),
        ("<think>hm</think>\nOne. Two.", "One. Two."),
        ("I don't know the answer.", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_long(reply: str, expected: str) -> None:
    assert parse_answer(reply, "long") == expected


kinds = st.sampled_from(["short", "long", "yes_no"])
bits = st.sampled_from(
    [
        "Paris",
        " ",
        "\n",
        "**",
        "```",
        "Answer:",
        "the answer is",
        ".",
        "<think>",
        "</think>",
        "Yes",
        "Unknown",
        "{",
        "}",
        '"',
        "answer",
        "\\boxed{",
        "<answer>",
        "U.S.",
    ]
)
replies = st.lists(bits, max_size=12).map("".join) | st.text(max_size=60)


@given(replies, kinds)
def test_an_answer_is_never_blank_and_nothing_is_invented(reply: str, kind: str) -> None:
    answer = parse_answer(reply, kind)  # type: ignore[arg-type]
    assert answer.strip() == answer != ""
    if answer not in (UNKNOWN, "Yes", "No"):
        assert all(undressed(line) in undressed(reply) for line in answer.splitlines())
    if kind == "short":
        assert "\n" not in answer
    if kind == "yes_no":
        assert answer in (UNKNOWN, "Yes", "No")


@given(st.from_regex(r"[A-Z][a-z]{2,9}( [A-Z][a-z]{2,9})?", fullmatch=True))
def test_wrapping_does_not_change_a_plain_answer(name: str) -> None:
    plain = parse_answer(name, "short")
    for shape in (
        "{}.",
        "**{}**",
        "```\n{}\n```",
        "Answer: {}",
        "So the answer is {}.",
        "<think>x</think>{}",
    ):
        assert parse_answer(shape.format(name), "short") == plain


@pytest.mark.parametrize(
    "unit", ["\n", "*", " \n", "> ", "answer ", "<think>", "The answer is ", "{", "\\boxed{"]
)
def test_a_huge_reply_is_read_all_the_same(unit: str) -> None:
    assert parse_answer("a" + unit * 20_000 + "\nAnswer: Paris", "short") in ("Paris", "a", UNKNOWN)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("So the answer is Paris. The capital of France lies on the Seine.", "Paris"),
        ("So the answer is Dr. No.", "Dr. No"),
        ("So the answer is J. R. R. Tolkien. He wrote many other books.", "J. R. R. Tolkien"),
        ("So the answer is the U.S. Navy.", "the U.S. Navy"),
    ],
)
def test_a_marked_answer_ends_with_its_sentence(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris\n\nLet me know if the answer is unclear.", "Paris"),
        ("Answer\n\nParis", "Paris"),
        ("**Answer**\nParis.", "Paris"),
        (r"So: \boxed{\text{Paris}}", "Paris"),
        ('{"answer": "Paris", "confidence": 0.9}', "Paris"),
        ('{"answer": 1932}', "1932"),
        ('{"city": "Paris"}', '{"city": "Paris"}'),
        ("The answer is <b>Paris</b>.", "Paris"),
        ("A: Paris", "Paris"),
        ("Antwort: Paris", "Paris"),
        ("La respuesta es París.", "París"),
        ("It rained. Thus the answer is Paris.", "Paris"),
    ],
)
def test_more_shapes_that_models_give(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('{"answer": "Paris"}\n\nThe passage says so.', "Paris"),
        ('The passage says so.\n\n{"answer": "Paris"}', "Paris"),
        ('Here it is:\n```json\n{\n  "answer": "Paris"\n}\n```\nThat is all.', "Paris"),
        ('Here it is:\n```{"answer": "Paris"}```', "Paris"),
        ('{"answer": "Rome"}\nNo.\n{"answer": "Paris"}\n{"sure": true}', "Paris"),
        ('{"a": {\n"answer": "Rome"}}\n{"answer": "Paris"}', "Paris"),
        ('{"answer": "Rome"}\nSo the answer is Paris.', "Paris"),
        ('{"answer": "Rome"}\n<answer>Paris</answer>', "Paris"),
        ('{"answer": "Paris"\n{"answer"', '{"answer": "Paris"'),
        ("{\n" * 3000 + '{"answer": "Paris"}', "Paris"),
    ],
)
def test_an_answer_in_json_among_other_text(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


def test_json_in_replies_of_other_kinds() -> None:
    said = '{"answer": "yes"}\n\nThe passage says so.'
    assert parse_answer(said, "yes_no") == "Yes"
    assert parse_answer(said, "long") == "yes"
    example = 'The server sends an object:\n{"answer": 42}'
    assert parse_answer(example, "long") == example


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (
            "Several people built it, including:\n1. Ada: a mason who came from the south.\n"
            "2. **Karl** - her son, who was a sailor first",
            "Ada, Karl",
        ),
        (
            "They were:\n- Star Wars: A New Hope\n- 2001: A Space Odyssey",
            "Star Wars: A New Hope, 2001: A Space Odyssey",
        ),
        ("They include:\n- Ada\n- Karl\n\nHowever, no others are mentioned.", "Ada, Karl"),
        ("No. The reasons are:\n1. He was old.\n2. He was ill.", "No. The reasons are:"),
        ("Tom Hanks. His films are:\n- Heat\n- Ronin", "Tom Hanks. His films are:"),
        ("So the answer is 1891:\n- Passage 2 says so.\n- It is old.", "1891:"),
        ("They were:\n1. Ada\n2. Karl\nNone of the passages says who.", "Unknown"),
        ("Unknown. The passages are:\n- ice\n- ferries", "Unknown"),
        (
            "The capital is Paris. Here is why:\n- It is large.\n- It is old.",
            "The capital is Paris. Here is why:",
        ),
        ("They were:\n\n- **Ada Brenner** (1820)\n* Karl Oster.", "Ada Brenner (1820), Karl Oster"),
        ("Here is the answer:\nParis", "Paris"),
        ("It was built by:", "It was built by:"),
        ("Paris\n- the capital", "Paris"),
    ],
)
def test_what_a_first_line_announces_is_the_answer(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


def test_a_list_does_not_answer_how_many() -> None:
    said = read_answer("They were:\n1. Ada\n2. Karl", "short", PromptParts("How many were there?"))
    assert said.answer == "They were:"


@pytest.mark.parametrize(
    "reply",
    [
        "Here is the reasoning:\nStep 1\nIt is ice. It is old.",
        "Here are the facts:\n- Ice\n- Age",
        "To answer this question, I'll need to look at the information provided in the three "
        "passages:",
        "**Let me look at each of the passages in turn:**",
        "I will look at each of the passages in turn…",
    ],
)
def test_a_heading_of_a_reasoning_is_no_answer(reply: str) -> None:
    assert read_answer(reply, "short", reasons=True) == ("Unknown", "no_conclusion")


@pytest.mark.parametrize(
    ("reply", "kind", "states"),
    [
        ("The light was built by Ada Brenner in 1874.", "short", True),
        ("It is old. Ada Brenner built it in 1874.", "short", True),
        ("Both films were directed by Ada.", "yes_no", True),
        ("Yes, both films were directed by Ada.", "yes_no", False),
        ("Ada Brenner built it.", "short", False),
        ("It is old. So the answer is the wife of Karl Oster.", "short", False),
        ('{"answer": "the wife of Karl Oster the elder"}', "short", False),
        ("The passages do not say who built the light.", "short", False),
        ("<think>It was built by Ada Brenner.</think>", "short", False),
        ("", "short", False),
    ],
)
def test_a_statement_is_told_from_a_conclusion(reply: str, kind: AnswerType, states: bool) -> None:
    assert only_states(reply, kind) is states


@pytest.mark.parametrize(
    "reply",
    [
        "Yes, for these reasons:\n1. Both are old.\n2. Both are large.",
        "So the answer is Yes:\n- Both are old",
        "**Yes:**\nBoth are old.",
    ],
)
def test_a_verdict_before_its_reasons_is_read(reply: str) -> None:
    assert parse_answer(reply, "yes_no") == "Yes"


@pytest.mark.parametrize(
    ("reply", "question", "answer"),
    [
        ("No, they were not. Both sailed.", "Were Ada and Karl from one town?", "No"),
        ("Yes - both were.", "Were Ada and Karl from one town?", "Yes"),
        ("No, Karl", "Was it Ada or Karl?", "No, Karl"),
        ("No, thanks", "Which song is the oldest?", "No, thanks"),
        ("No Country for Old Men", "Is there a film after it?", "No Country for Old Men"),
        ("Yes, Ada wrote it.", "Can you tell me who wrote it?", "Yes, Ada wrote it"),
        ("No, the passages do not say.", "Was Ada a sailor?", "Unknown"),
        ("Yes, Paris", "Can you name the capital of France?", "Yes, Paris"),
        ("No. 1", "Did the song reach the top of the charts?", "No. 1"),
        ("No. 1", "Was it the first to reach the top of the charts?", "No. 1"),
        (
            "So the final answer is: Yes, Joe Walsh and Chester Bennington are both guitarists.",
            "Are Joe Walsh and Chester Bennington both guitarists?",
            "Yes",
        ),
        ("No, one was Czech.", "Were Ada and Karl of the same nationality?", "No"),
        ("Yes, by a year.", "Is the bridge older than the light?", "Yes"),
    ],
)
def test_a_question_for_yes_or_no_takes_the_reason_off_its_answer(
    reply: str, question: str, answer: str
) -> None:
    assert read_answer(reply, "short", PromptParts(question)).answer == answer


def test_a_flood_is_cut_to_what_a_screen_holds() -> None:
    assert parse_answer("It is Paris. " + "And so on it goes. " * 600, "short") == "It is Paris"
    assert len(parse_answer("a" * 10_000, "short")) == 400
    assert len(parse_answer("a" * 10_000, "long")) == 10_000


def test_a_reason_behind_a_reasonings_conclusion_is_none_of_it() -> None:
    reply = (
        "Based on the information provided in the passage, an unread verdict counts as not known. "
        "This is because the claim filter saves searches."
    )
    assert (
        read_answer(reply, "short", reasons=True).answer == "an unread verdict counts as not known"
    )
    ruled_out = "Passage 1 is about the lake and cannot answer. This is because it names no year."
    assert read_answer(ruled_out, "short", reasons=True).answer == UNKNOWN


def test_the_reference_is_a_source_and_none_of_the_answer() -> None:
    assert parse_answer("According to the reference, it is 62 metres long.", "short") == (
        "it is 62 metres long"
    )


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("It was banned in 1978. So the answer is.", "It was banned in 1978"),
        ("1978. So the answer is", "1978"),
        ("So the answer is Osk. So the answer is:", "Osk"),
        ("Osk. So the answer is. So the answer is.", "Osk"),
        ("Is that your final answer", "Is that your final answer"),
        ("Her last book is Final Answer", "Her last book is Final Answer"),
        ("So the answer is that of the queen before", "that of the queen before"),
        ("Answer: that old black coat", "that old black coat"),
        ("So the answer is that the veins return it.", "the veins return it"),
        ("So the answer is That Winter", "That Winter"),
    ],
)
def test_a_conclusion_may_stop_early_or_be_a_clause(reply: str, answer: str, reasons: bool) -> None:
    assert read_answer(reply, "short", reasons=reasons).answer == answer


@pytest.mark.parametrize(
    "reply",
    [
        "So the answer is.",
        "Answer:",
        "So the answer is. So the answer is.",
        "So the answer is:\nFinal answer:",
    ],
)
def test_a_conclusion_without_an_answer_is_asked_for_again(reply: str) -> None:
    assert read_answer(reply, "short") == (UNKNOWN, "no_conclusion")


def test_a_conclusion_that_a_reply_repeats_until_it_is_cut_is_read_whole() -> None:
    said = "So the answer is 1,000,000 "
    assert read_answer(3 * said + "So the answer is 1", "short", reasons=True).answer == "1,000,000"
    assert read_answer(3 * said + "So the answer is", "short", reasons=True).answer == "1,000,000"
    other = "So the answer is Paris, in France. So the answer is Paris."
    assert read_answer(other, "short", reasons=True).answer == "Paris"
    clause = 3 * "So the answer is that Mars has two moons. "
    assert read_answer(clause, "short", reasons=True).answer == "Mars has two moons"
    aside = 2 * "The answer is Paris. Yes. " + "The answer is Paris."
    assert read_answer(aside, "short", reasons=True).answer == "Paris"


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: Paris\n\nThe answer is based on passage 2.", "Paris"),
        ("Monet\nThe answer is in passage 2.", "Monet"),
        ("Monet\nThe answer is in passage 2, which names him.", "Monet"),
        ("Answer: Monet. The answer is explicitly stated in passages 1 and 3.", "Monet"),
        ("Based on passage 1, the answer is Paris. The answer is not in passage 2.", "Paris"),
        ("Rome. The answer is not given in the passages.", UNKNOWN),
        ("Passage 1 is about ice. The answer is not in passage 1.", UNKNOWN),
        ("So the answer is in the text of the constitution.", "in the text of the constitution"),
        ("I can't give a final answer based on the passages.", UNKNOWN),
        ("Paris (final answer)", "Paris"),
        ("Paris.\nFinal answer: Rome", "Rome"),
        ("The final answer: Rome", "Rome"),
        ("**Final Answer**\n\nRome", "Rome"),
        ('The answer to the question "What is the capital of France?" is Paris.', "Paris"),
        ("The answer to the question of who did it is Karl.", "Karl"),
        ('The answer to the question "Is it" is: No', "No"),
        ("The answer: Monet", "Monet"),
        ("The correct answer: Monet", "Monet"),
        ("It was painted in 1872. So, the correct answer: Monet", "Monet"),
    ],
)
def test_where_an_answer_stands_is_no_answer(reply: str, answer: str, reasons: bool) -> None:
    assert read_answer(reply, "short", reasons=reasons).answer == answer


@pytest.mark.parametrize(
    "reply",
    [
        "Yes. The answer is supported by passage 2.",
        "Answer: Yes. The answer is supported by passage 1.",
        "__yes__",
    ],
)
def test_a_verdict_stays_whatever_is_said_of_its_source(reply: str) -> None:
    assert parse_answer(reply, "yes_no") == "Yes"


SIGNS = ["__init__", "_id", "*args", "**kwargs", "PATH_", "<br>", "<b>", "|", "[]", "`**`"]


@pytest.mark.parametrize("code", SIGNS)
@pytest.mark.parametrize("shape", ["{}", "The answer is {}", "Answer: {}"])
def test_an_answer_may_be_code(code: str, shape: str) -> None:
    assert parse_answer(shape.format(code), "short") == code.strip("`")


@given(st.from_regex(r"[_*]{0,3}[b-d]{2,6}[_*<>|]{0,2}", fullmatch=True))
def test_nothing_between_backticks_is_taken_off(code: str) -> None:
    assert parse_answer(f"`{code}`", "short") == code


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The <p> tag", "The <p> tag"),
        ("Use `foo` and `bar`.", "Use `foo` and `bar`"),
        ("**`__init__`**", "__init__"),
        ("<p><b>Paris</b>, France</p>", "Paris, France"),
        ("<p>Paris", "Paris"),
        ("Paris</p>", "Paris"),
        ("Paris<br>It is old.", "Paris"),
        ("**Paris, the\ncapital**", "Paris, the"),
        ("**The answer is Paris.** It lies on the Seine, in France.", "Paris"),
        ("_Hamlet_", "Hamlet"),
        ("__Hamlet and others__", "Hamlet and others"),
        ("**Paris is", "Paris is"),
        ("Bram Stoker**", "Bram Stoker"),
        ("So the answer is: Bram Stoker.**", "Bram Stoker"),
        ("**1897", "1897"),
        ("**the count", "the count"),
        ("**kwargs", "**kwargs"),
        ("char**", "char**"),
        ("Paris`", "Paris"),
        ("**", "**"),
        ("x = `a`", "x = `a`"),
        ("***", UNKNOWN),
        ("---", UNKNOWN),
    ],
)
def test_emphasis_and_tags_are_taken_off_in_pairs(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('{"answer": ["Paris", "Rome"]}', "Paris, Rome"),
        ('{"answer": [1, null, "two"]}', "1, two"),
        ('{"answer": null}', UNKNOWN),
        ('{"answer": []}', UNKNOWN),
        ('{"Answer": "Paris"}', "Paris"),
        ('{"answer": {"city": "Paris"}}', '{"answer": {"city": "Paris"}}'),
    ],
)
def test_json_may_hold_a_list_or_nothing(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


@pytest.mark.parametrize(
    ("reply", "concluded"),
    [
        ("Rome fell, says Bob. So the answer is Ada.", "Ada"),
        ("Two did it. So the answers are: Ada, Karl.", "Ada, Karl"),
        ("**So the answer is Ada.**", "Ada"),
        ("Two did it.\nAnswers:\n- Ada\n- Karl", "- Ada\n- Karl"),
        ("Rome fell, says Bob.", None),
    ],
)
def test_all_that_a_reasoning_concludes_with(reply: str, concluded: str | None) -> None:
    assert concluding(reply) == concluded


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("It is a light in the north. It was built in 1934.\n\nAda Brenner", "Ada Brenner"),
        ("It is a light in the north. It was built in 1934.\n\n**Ada Brenner**", "Ada Brenner"),
        ("It is a light in the north. It was built by two.\n\nBank of Norland.", "Bank of Norland"),
        ("It is a light. Ada was born in 1946.\n\nTherefore, 1946.", "1946"),
        ("It is a light. Ada was born in 1946.\n\nIn short, in 1946.", "in 1946"),
        *(
            (f"It is a light. Ada was born in 1946.\n\n{closing}", UNKNOWN)
            for closing in (
                *("Hope this helps", "See Passage 2", "Source: Passage 1", "Confidence: 95%"),
                *(
                    "Passages 1, 2",
                    "Wikipedia",
                    "Correct",
                    "Key Points",
                    "**Conclusion**",
                    "Thank you",
                    "Done",
                    "Step 2",
                    "This is correct",
                    "**the north**",
                ),
            )
        ),
        ("It is a light. It is old and grey.\n\n1934.", "1934"),
        ("It is a light. It is old and grey.\n\nThe light", UNKNOWN),
        ("It is a light. It is old and grey.\n\nthe north", UNKNOWN),
        ("It is a light. It is old and grey.\n\n- Ada", UNKNOWN),
    ],
)
def test_a_reasoning_may_end_in_the_bare_answer(reply: str, answer: str) -> None:
    assert read_answer(reply, "short", reasons=True).answer == answer


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The Nile is 6650 km long.\n\nYes, the Nile is longer.", "Yes"),
        ("The Nile is 6650 km long. Therefore, no.", "No"),
        ("Yes or No", UNKNOWN),
        ("Yes/No", UNKNOWN),
        ("Yes/No: Yes", "Yes"),
        ("**Yes or No:** No", "No"),
        ("True/False: True.", "Yes"),
        ("No, there is insufficient evidence to convict him.", "No"),
        ("No, there is not enough information.", UNKNOWN),
        ("No, it is not known for its length but for its floods.", "No"),
        ("No, breakfast is not included.", "No"),
        ("Yes, but the exact date is not mentioned in the passages.", "Yes"),
    ],
)
def test_a_verdict_may_come_last_and_may_be_none(reply: str, answer: str, reasons: bool) -> None:
    assert read_answer(reply, "yes_no", reasons=reasons).answer == answer


@pytest.mark.parametrize(
    "reply",
    [
        "The Nile is long. No other river is longer.",
        "The Nile is long. Is the Rhine short? Yes.",
        "The Nile is long.\n\nIs there anything else? No.",
        "The passages do not say how long it is. No.",
        "It cannot be determined from the passages.\n\nNo.",
        "I'm not sure. Yes, maybe.",
        "He was a king. No, he was a duke. No, he was a king. No, he was",
    ],
)
@pytest.mark.parametrize("reasons", [False, True])
def test_another_yes_or_no_is_no_verdict(reply: str, reasons: bool) -> None:
    assert read_answer(reply, "yes_no", reasons=reasons).answer == UNKNOWN


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("影片很老。所以答案是1975年", "1975年"),
        ("回答：1975年", "1975年"),
        ("Der Film ist alt. Die Antwort ist also 1975.", "1975"),
        ("O filme é velho.\nResposta: 1975", "1975"),
        ("Antwoord: 1975", "1975"),
        ("Ответ: 1975", "1975"),
        ("So the answer is not yet known.", UNKNOWN),
        ("Ada Brenner [1]", "Ada Brenner"),
        ("Ada Brenner [1, 3].", "Ada Brenner"),
        ("array[1]", "array[1]"),
        ("Psalm [23]", "Psalm [23]"),
        ("The interval [0, 1]", "The interval [0, 1]"),
        ("It prints [1, 2, 3].", "It prints [1, 2, 3]"),
        ("Ada built it, see [1].", "Ada built it, see [1]"),
        ("It opened in **1975**.", "It opened in 1975"),
        ("The **light** is by **Ada**", "The light is by Ada"),
        ("*Jaws* is by **Ada**.", "Jaws is by Ada"),
        ("**Ada** and **Karl**", "Ada and Karl"),
        ("Answer: Dr. No. It was released in 1962.", "Dr. No"),
        ("Answer: 2 Baker St. It is a house in the north.", "2 Baker St"),
    ],
)
def test_answers_in_other_words_and_dresses(reply: str, answer: str, reasons: bool) -> None:
    assert read_answer(reply, "short", reasons=reasons).answer == answer
