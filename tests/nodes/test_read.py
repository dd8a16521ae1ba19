"""The reader of free text: answers, refusals, verdicts, ids, lists, and marks that are not part of a reply."""

from __future__ import annotations

import pytest

from ragweave.nodes import read
from ragweave.nodes.forms import YesNo
from ragweave.tools.models.messages import without_thoughts

THOUGHT = "Bergen was the capital once, but passage 1 says Oslo."


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Ada Brenner.", "Ada Brenner"),
        ("**Ada Brenner**", "Ada Brenner"),
        ("The bridge was built by Ada. So the answer is Ada Brenner.", "Ada Brenner"),
        ("Answer: Ada Brenner\n\nShe was an engineer.", "Ada Brenner"),
        ("```\nAda Brenner\n```", "Ada Brenner"),
        ('{"answer": "Ada Brenner"}', "Ada Brenner"),
        (r"Therefore, the final answer is \boxed{412}", "412"),
        ("Franklin D. Roosevelt", "Franklin D. Roosevelt"),
        ("Harry S.", "Harry S."),
        ("Unknown", "Unknown"),
        ("I don't know.", "Unknown"),
        ("The passages do not mention who built it.", "Unknown"),
        ("The passages mention the bridge, but they do not say who built it.", "Unknown"),
        (
            "The passages do not name the town, but the bridge was built by Ada.",
            "The passages do not name the town, but the bridge was built by Ada",
        ),
        ("None", "None"),
        ("不明", "Unknown"),
        ("", "Unknown"),
    ],
)
def test_answers(reply: str, answer: str) -> None:
    assert read.answer(reply) == answer


def test_a_reasoning_without_a_conclusion_has_no_answer() -> None:
    reply = "The bridge was built long ago. It has five arches of granite."
    assert read.answer(reply, reasoning=True) == "Unknown"
    assert read.answer(f"{reply} So the answer is granite.", reasoning=True) == "granite"


def test_long_answers_are_all_that_is_said() -> None:
    text = "It was built by Ada Brenner. It has five arches."
    assert read.answer(text, "long") == text
    assert read.answer("I cannot answer this from the passages.", "long") == "Unknown"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Yes", "Yes"),
        ("No, it does not.", "No"),
        ("True", "Yes"),
        ("Both rivers are long. So, yes.", "Yes"),
        ("Perhaps", "Unknown"),
        ("No information is given.", "Unknown"),
        ("No, breakfast is not provided.", "No"),
        ("The passages do not say it. So, no.", "No"),
        ("The passages do not say so. No.", "No"),
        ("对不起，我不知道。", "Unknown"),
        ("对，在一九三一年。", "Yes"),
    ],
)
def test_yes_or_no(reply: str, verdict: str) -> None:
    assert read.answer(reply, "yes_no") == verdict
    form = YesNo.from_text(reply)
    assert (form.answer if form else "Unknown") == verdict


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("Correct", "Correct"),
        ("The passage is incorrect.", "Incorrect"),
        ("It is not correct", None),
        ("Correct or Incorrect", None),
    ],
)
def test_choices(reply: str, choice: str | None) -> None:
    assert read.choice(reply, "Correct", "Ambiguous", "Incorrect") == choice


@pytest.mark.parametrize(
    ("reply", "ids"),
    [
        ("1, 3", [1, 3]),
        ("Knowledge 2 and knowledge 4 are relevant.", [2, 4]),
        ("1-3", [1, 2, 3]),
        ("The relevant ones are:\n2, 9", [2]),
        ("0, 2", [1, 3]),
        ("none", []),
        ("No passage is relevant.", []),
        ("all of them", [1, 2, 3, 4]),
        ("hm", None),
        ("1: relevant, 2: not relevant", [1]),
        ("Irrelevant:\n2, 4\n\nRelevant:\n1, 3", [1, 3]),
        ("All except 2", [1, 3, 4]),
        ("It opened in 1931 and has 3 arches.", None),
        ("I don't think that any of them helps.", []),
    ],
)
def test_ids(reply: str, ids: list[int] | None) -> None:
    assert read.ids(reply, 1, 4) == ids


SEEN = (
    "Which film is it? The Unknown Soldier is a film of 1955. Unclear Wave is a band, the No Information Society a club. "
    "The date is unknown. An unknown gunman was seen. He wrote “No Answer”. Am 1. Mai 1931 closed. Use arr[1] here. "
    "Refunds are not available for digital goods. I do not know the town, he said."
)


@pytest.mark.parametrize(
    "answer",
    [
        "The Unknown Soldier",
        "Unclear Wave",
        "the No Information Society",
        "An unknown gunman",
        "“No Answer”",
        "1. Mai 1931",
        "Refunds are not available for digital goods",
    ],
)
def test_what_stands_in_a_passage_is_an_answer_whatever_words_it_holds(answer: str) -> None:
    assert read.answer(answer, seen=SEEN) == answer.strip("“”")
    assert not read.is_unknown(f"The answer is {answer}.", SEEN)


@pytest.mark.parametrize(
    "answer",
    [
        "We do not ship to Alaska or Hawaii.",
        "I don't eat meat.",
        "We do not share personal information.",
        "Insufficient memory",
        "Not enough disk space",
        "Any of the branches",
        "No personal data",
        "Lunch is not provided.",
        "We cannot accept cheques since 2020.",
        "Unable to connect",
        "Page not found",
        "没有包含早餐。",
        "朝食は含まれません。",
    ],
)
def test_a_rule_or_a_fact_that_says_no_is_an_answer_where_a_passage_says_it(answer: str) -> None:
    seen = f"Of our rules: {answer} That is all."
    assert read.answer(answer, seen=seen) == answer.rstrip(".。")
    assert read.answer(answer, "long", seen=seen) == answer
    assert read.answer(answer, seen="Of our rules: none is new.") == "Unknown"


@pytest.mark.parametrize(
    "refusal",
    [
        "Not available",
        "Not given.",
        "We cannot",
        "No data",
        "I'm not sure.",
        "I have no idea.",
        "I do not know who came.",
        "We cannot tell from the letters alone.",
        "There is no information.",
        "Information not available.",
        "It is not mentioned.",
        "没有提到。",
        "不清楚。",
        "情報がありません。",
    ],
)
def test_a_refusal_speaks_of_knowing_even_where_a_passage_says_the_same(refusal: str) -> None:
    assert read.answer(refusal, seen=f"He wrote: {refusal} That was all.") == "Unknown"


@pytest.mark.parametrize(
    "refusal",
    [
        "Unknown",
        "unknown",
        "The date is unknown.",
        "No information",
        "It is unclear.",
        "The passages do not say who made The Unknown Soldier.",
        "I do not know The Unknown Soldier.",
        "I do not know the town.",
        "Refunds are not available for bicycles.",
    ],
)
def test_a_refusal_stays_one_even_if_its_words_stand_in_a_passage(refusal: str) -> None:
    assert read.answer(refusal, seen=SEEN) == "Unknown"
    assert read.answer(refusal, "long", seen=SEEN) == "Unknown"


@pytest.mark.parametrize(
    "reply",
    [
        "not sure",
        "I'm not sure.",
        "idk",
        "No idea.",
        "No clue",
        "N/A",
        "null",
        '{"answer": null}',
        "It does not say.",
        "Not in the provided passages.",
        "not mentioned in the passages",
        "No data",
    ],
)
def test_plain_refusals(reply: str) -> None:
    assert read.answer(reply) == "Unknown"


@pytest.mark.parametrize(
    "reply",
    [
        "## Answer\n\n1931",
        "**Answer**\n1931",
        "1931 [1]",
        "1931 [1][2].",
        "1931 (passage 2)",
        "1931【1†source】",
        "1. 1931",
        "- 1931",
        "### 1931",
        "Answer：1931",
        "答案：1931",
        "答案是：1931",
        "因此，答案是1931。",
        "Antwort: 1931",
        r"\boxed{1931}.",
        r"So the answer is \boxed{\text{1931}}. It is old.",
        "| bridge | opened |\n|---|---|\n| Aster | 1931 |",
        "\ufeff1931",
    ],
)
def test_what_stands_around_a_short_answer_is_no_part_of_it(reply: str) -> None:
    assert read.answer(reply, seen="The Aster Bridge opened in 1931.") == "1931"


def test_tags_alone_are_no_answer_unless_a_passage_holds_them() -> None:
    assert [read.answer(reply) for reply in ("<br>", "<search> </search>", r"\boxed{}")] == ["Unknown"] * 3
    assert read.answer("<br>", seen="The element <br> breaks a line.") == "<br>"
    assert read.answer("5 < 6") == "5 < 6"


def test_a_model_s_own_marks_are_no_part_of_a_long_answer() -> None:
    assert read.answer("## Answer\nIt opened in 1931 [1]. It is old[2].", "long") == "It opened in 1931. It is old."
    code = "Use arr[1] here, and `x[2]` there."
    assert read.answer(f"{code} [3]", "long", seen=SEEN) == code
    assert read.answer("See [1](https://example.org).", "long") == "See [1](https://example.org)."


@pytest.mark.parametrize(
    "text",
    [
        "Use an index:\n```python\nsecond = items[1]\nprint(second)  # see [2]\n```\nIt counts from zero.",
        "Take items[1] of the list.",
        "The score lies in [1, 5] and the default is 3.",
        'Send {"answer": 42, "id": 7} to the endpoint. It returns the status.',
        "".join(f"Sentence {number} says something of its own. " for number in range(900)).strip(),
    ],
)
def test_a_long_answer_keeps_all_of_its_text(text: str) -> None:
    assert read.answer(text, "long", shown=4) == text


def test_marks_of_passages_that_were_shown_are_no_part_of_a_long_answer() -> None:
    reply = "Ada[1], born in 1901[2] in Verra [1, 4], built it[3]."
    assert read.answer(reply, "long", shown=4) == "Ada, born in 1901 in Verra, built it."
    assert read.answer("该桥[1]由艾达建造[2]。", "long") == "该桥由艾达建造。"


@pytest.mark.parametrize(
    "reply",
    [
        '{"answer": "It opened in 1931."}',
        '```json\n{"answer": "It opened in 1931."}\n```',
        "```\nIt opened in 1931.\n```",
    ],
)
def test_what_wraps_a_whole_long_answer_is_no_part_of_it(reply: str) -> None:
    assert read.answer(reply, "long") == "It opened in 1931."


def test_a_title_in_quotes_is_an_answer_and_a_repeated_question_is_none() -> None:
    seen = "他写了《未知的世界》。彼女は『わからないこと』を書いた。"
    assert read.answer("未知的世界", seen=seen) == "未知的世界"
    assert read.answer("わからないこと", seen=seen) == "わからないこと"
    assert read.answer("わからない。", seen=seen) == "Unknown"
    assert read.is_unknown("Wer hat sie gebaut? Das ist nicht bekannt.")


def test_a_refusal_ends_at_a_but_that_gives_an_answer() -> None:
    assert not read.is_unknown("The year is not mentioned, but the bridge was built by Ada Brenner.")
    assert read.is_unknown("The year is not mentioned, but nobody knows the builder.")
    assert read.is_unknown("The year is not mentioned.")


def test_sentences_that_say_unknown_are_not_searched_for() -> None:
    assert read.without_unknown("The bridge is old.\nIts builder is unknown.") == "The bridge is old."


@pytest.mark.parametrize(("most", "text"), [(99, "one two three"), (7, "one two"), (8, "one two"), (2, "on")])
def test_a_text_is_cut_at_a_words_end(most: int, text: str) -> None:
    assert read.cut("one two three", most) == text


def test_what_an_example_says_is_a_copy_unless_something_read_says_it() -> None:
    assert read.copied("1891", "So the answer is 1891.", "The bridge was built in 1931.")
    assert not read.copied("1891", "So the answer is 1891.", "It was lit in 1891.")
    assert not read.copied("18", "So the answer is 1891.", "")


def test_items_and_phrases() -> None:
    assert read.listed("(a) Ada Brenner (b) Karl Oster") == ["Ada Brenner", "Karl Oster"]
    assert read.listed("Candidates:\n1. Ada Brenner\n2. Karl Oster") == ["Ada Brenner", "Karl Oster"]
    assert read.phrase("Sure:\nQuery: Alden bridge", "query") == "Alden bridge"


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>\n{THOUGHT}\n</think>\n\nOslo",
        f"{THOUGHT}</think>Oslo",
        f"<seed:think>{THOUGHT}</seed:think>Oslo",
        f"◁think▷{THOUGHT}◁/think▷Oslo",
        f"[THINK]{THOUGHT}[/THINK]Oslo",
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>Oslo<|END_RESPONSE|>",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>Oslo<|return|>",
        f"Here is my thought process:\n{THOUGHT}\n\nHere is my response:\n\nOslo",
        "Oslo<|im_end|>\n<|im_start|>user\nAnd of Sweden?<|im_end|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\nOslo<|eot_id|>",
        "assistant\nOslo</s>",
        "Oslo [/INST]",
    ],
)
def test_thoughts_and_template_marks_are_no_part_of_an_answer(reply: str) -> None:
    assert read.answer(reply) == "Oslo"


def test_thoughts_that_are_cut_off_leave_nothing() -> None:
    assert without_thoughts(f"<think>{THOUGHT}") == ""
    assert without_thoughts("Assistant professor") == "Assistant professor"


@pytest.mark.timeout(60)  # a pattern that backtracks takes hours
@pytest.mark.parametrize("unit", ["(", "a\n", "\n", "answer is ", "not ", "<think>", "1-999 ", "<Claim(", '{"a":', " "])
def test_no_reply_hangs_the_reader(unit: str) -> None:
    reply = unit * (40_000 // len(unit))
    assert read.answer(reply) == read.answer(
        reply[: read.MAX_CHARACTERS // 2] + "\n" + reply[-read.MAX_CHARACTERS // 2 :]
    )
    for reader in (read.is_unknown, read.listed, read.phrase):
        reader(reply)
    read.answer(reply * 10, "long")
    read.ids(reply, 1, 20)
