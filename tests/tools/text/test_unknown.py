"""`is_unknown` on replies in the forms that real models use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.text.unknown import UNKNOWN, is_unknown, knows_nothing

UNKNOWNS = [
    "Unknown",
    "unknown.",
    "UNKNOWN!",
    "**Unknown**",
    "```\nUnknown\n```",
    "```text\nUnknown\n```",
    '"Unknown"',
    "<answer>Unknown</answer>",
    '{"answer": "Unknown"}',
    r"\boxed{Unknown}",
    "Answer: Unknown",
    "**Answer:** Unknown.",
    "Final answer: unknown",
    "The answer is unknown.",
    "So the answer is Unknown",
    "So the final answer is: Unknown.",
    "The answer is therefore unknown.",
    "Unknown (the passages do not mention it)",
    "Unknown, as the passages talk about other films.",
    "So the answer is Unknown if you don't know it.",
    "Unknown if you don't know it.",
    "The bridge at Veld cost Unknown.",
    "Unknown. The passages only describe the first season.",
    "<think>Maybe Paris? The answer is Paris?</think>\nUnknown",
    "",
    " \n\t",
    "...",
    "I don't know",
    "I don’t know.",
    "I do not know the answer.",
    "I don't know the answer to this question based on the given passages.",
    "I'm not sure.",
    "I am unable to answer the question from the passages.",
    "As an AI developed by Northwind Labs, I am unable to give real-time information about films.",
    "I'm sorry, but I cannot assist with that.",
    "As an AI language model, I cannot discuss topics related to politics, religion and the like.",
    "As an AI made by Northwind Labs, I am here to be helpful. However, I cannot provide "
    "information on rivers. If you have other questions, feel free to ask.",
    "As an AI made by Northwind Labs, I'm committed to accuracy. I cannot predict the date of any "
    "film, as it depends on many factors. It is best to look at the latest news.",
    "I'm sorry, but I don't have enough information to answer that.",
    "Sorry, I can't answer the question based on the given passages.",
    "I cannot answer this question.",
    "Based on the given passages, I cannot determine who wrote the song.",
    "The passages do not say who wrote the song.",
    "The passage doesn't mention when the film was released.",
    "The provided input does not contain the context to answer the question.",
    "The given passages do not provide information about the second season.",
    "While the passages mention the film, they do not say who directed it.",
    "The passages do not mention the director, but they do mention the cast.",
    "The passages do not mention the director. However, they mention the cast.",
    "None of the passages mention the director.",
    "None of the given passages contain information about the question.",
    "No passage mentions the director.",
    "There is no information in the passages about the director.",
    "There is no mention of the director in the passages.",
    "There isn't enough information to answer.",
    "I apologize, but there is no ferry called Grey Gull on Lake Orrin.",
    "I'm just an AI, I don't have access to the records of the ferry.",
    "I'm sorry, but there is no record of a mayor by that name.",
    "This question is not answerable",
    "I'm afraid that the question you have asked is not accurate.",
    "There is no song titled Orrin. Could you please provide more information?",
    "I am not aware of such a ferry. If you could clarify, I would be happy to help.",
    "The composer of the film Verra is not mentioned. However, the composer of the film Osk is Falk.",
    "The owner is not named in the text. However, the owner of the mill is not named in it.",
    "Not mentioned",
    "Not mentioned in the passages.",
    "Not specified",
    "Not enough information",
    "Not enough information to answer the question.",
    "No information available.",
    "No answer",
    "Insufficient information",
    "Cannot be determined from the context",
    "The answer cannot be determined from the passages.",
    "It is not possible to determine the answer from the given passages.",
    "It is not clear from the passages.",
    "It is unclear from the context who directed the film.",
    "The answer is not in the passages.",
    "The director of the film is not mentioned in the given passages.",
    "The year cannot be inferred from the text.",
    "N/A",
    "n/a.",
    "N.A.",
    "Passage 1 is about a river. Passage 2 is about a lake. Therefore, the passages do not say who built the dam.",
    "The first passage is about a river. None of the passages answer the question.",
    "The answer: Unknown",
    "I can't give a final answer based on the passages.",
    "A final answer is not possible.",
    "Passage 1 is about a river. Passage 2 is about a lake. The director of the film is unknown.",
    "It rained in Rome. It cannot be determined.",
    "It rained in Rome. The answer is unknown.",
    "It rained in Rome. The passages do not provide enough information.",
    "Unbekannt",
    "Inconnu.",
    "Desconocido",
    "Sconosciuto",
    "Ich weiß es nicht.",
    "Je ne sais pas.",
    "不明",
    "未知。",
    "неизвестно",
    "Antwort: Unbekannt",
    "The director cannot be determined.",
    "The director could not be identified.",
    "There is no director mentioned.",
    "None. The passages do not mention the director.",
    "None (the passages do not mention it)",
    "N/A - the passages do not say who directed it.",
    "Not enough info",
    "Answer not found.",
    "Not yet known",
    "None mentioned",
    "The exact date of his death is not provided. He was born in 1946.",
    "The passages do not explicitly state why. The ship's captain was John Oak.",
    "The passages don't directly explain why. I'm sorry.",
    "Insufficient info",
    "未提及",
    "无法确定",
    "The passages do not explicitly mention this. Instead, they are about the plot.",
    "The passages do not explicitly name the director. Further research is needed.",
    "I don't have direct access to that information. You can look it up.",
    "I don't know for sure. Sharks live in the sea.",
    "The passages do not give the exact date. The film is about sharks.",
    "Unknown. However, the film was shown in 1975.",
    "The passages do not explicitly state why it closed. They describe its halls.",
]

ANSWERS = [
    "I couldn't find much on Osk. So, to answer your question directly, Grey Gull came first.",
    "The director of Verra is not named in the list. However, the director of Verra is Ada Brenner.",
    "There is no ferry today. The last one sailed in 1931.",
    "As an AI, I would say Paris. I cannot access the web.",
    "I cannot access real-time data. As of 2021, the mayor was Ada Brenner.",
    "I cannot browse the internet. From what I know, it is Paris.",
    "I cannot predict the exact value: 400",
    "I Can't Predict",
    "It is best known as the Cedar Bridge. The passages do not say who built it.",
    "I would say 1891. I'm not certain.",
    "I can only find Ada Oak. The passages do not mention anyone else.",
    "It is important to note that the capital is Verra. I do not know about Osk.",
    "If you include the upper lake, the river is 40 km long. The passages do not mention its depth.",
    "I cannot access the internet, but based on the passages it is Paris.",
    "I could not access the file, the year is 1891.",
    "I cannot access the passages now; it is Paris.",
    "As an AI language model, I'm trained on data until 2021. I cannot say what came later. The "
    "lake was 412 metres high then.",
    "As an AI, I am here to help: it is Paris. I cannot say when.",
    "The Mary Celeste was found adrift on 4 December 1872. The fate of her crew is unknown.",
    "Jack the Ripper killed five women in 1888. The identity of the killer remains unknown.",
    "The bridge opened in 1934. Its cost cannot be determined.",
    "The bridge opened in 1934. The question of who drew it cannot be answered.",
    "It opened in 1934. You can find the answer to your question: ask the mayor.",
    "The Unknown Soldier",
    "Unknown Pleasures",
    "The Tomb of the Unknown Warrior",
    "Liam Neeson starred in Unknown",
    "Unknown if it is the oldest, but it was built in 1180.",
    "At a cost unknown",
    "Unknown (2011 film)",
    "The Great Unknown",
    "It is not known for certain, but Paris",
    "I'm not sure, but I think it is Paris.",
    "I don't know for certain, but it is believed to be Paris.",
    "The passages do not say who it was. However, it was most likely Henry Ford.",
    "The passages do not name it. So the answer is Paris.",
    "He did not mention it until 1995",
    "It is not known for its beaches but for its mountains.",
    "Paris",
    "No",
    "Yes",
    "None",
    "None of the above",
    "No one",
    "Nobody",
    "0",
    "+",
    "Nada Surf",
    "NaCl",
    "I Don't Know How to Love Him",
    "I Can't Tell You Why",
    "Not Fade Away",
    "Not Given Lightly",
    "No Country for Old Men",
    "No Way Out",
    "So the answer is Paris.",
    "The answer is Paris. The passages do not say when.",
    "It rose because of demand and bad harvests. The passages do not mention other causes.",
    "Energy cannot be created or destroyed.",
    "The president of the Information Society",
    "The Context Group",
    "He was born in an unknown year, about 1450, in Florence.",
    "Ulrich von Liechtenstein",
    "They refused because there is no water in the well.",
    "巴黎",
    "Unbekannte Pfade",
    "Unknown. However, it was probably Ada Oak.",
    "There is no single answer. The war had several causes: trade, pride and fear.",
    "Nobody knows the exact number. Estimates run from 500 to 700.",
    "The passages do not explicitly state why it closed. It was closed after the fire of 1902.",
    "None: the passages list three ships, and all of them came back",
    "None, as the ship never sailed",
    "Unknown. However, passage 2 states that Ada Oak drew it.",
    "There is no vaccine available.",
    "There is no minimum age specified.",
    "The director is not named in the credits because he was blacklisted.",
    "Unclear. However, most historians think that it hit ice.",
    "There were no seats given to the opposition.",
    "The killer could not be identified.",
    "A theory cannot be verified, only falsified.",
    "Na: the symbol of sodium",
    "NA (the North American plate)",
]


@pytest.mark.parametrize("reply", UNKNOWNS)
def test_replies_that_decline_are_unknown(reply: str) -> None:
    assert is_unknown(reply)


@pytest.mark.parametrize("reply", ANSWERS)
def test_replies_with_an_answer_are_not_unknown(reply: str) -> None:
    assert not is_unknown(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Dracula was written in 1897. The author is unknown.",
        "The film was shot in Hollywood. The director of the film is unknown.",
    ],
)
def test_what_a_reply_lacks_was_asked_for_where_one_answer_was(reply: str) -> None:
    assert is_unknown(reply, one_answer=True)
    assert not is_unknown(reply)
    assert not is_unknown("It is the Bridge of the Unknown. It opened in 1934.", one_answer=True)


@pytest.mark.parametrize(
    ("reply", "unknown"),
    [
        ("An answer is not possible.", True),
        ("An answer cannot be given.", True),
        ("No definitive answer is possible.", True),
        ("A definitive answer is possible: Paris", False),
    ],
)
def test_an_answer_may_be_possible_or_not(reply: str, unknown: bool) -> None:
    assert is_unknown(reply) is unknown


def test_the_literal_is_unknown() -> None:
    assert is_unknown(UNKNOWN)


padding = st.text(alphabet=" \n\t.*_`\"'!…", max_size=12)


@given(st.sampled_from(UNKNOWNS + ANSWERS), padding, padding, st.sampled_from([str.upper, str.lower]))
def test_padding_and_case_never_change_the_verdict(reply, before, after, case) -> None:  # type: ignore[no-untyped-def]
    assert is_unknown(before + case(reply) + after) == is_unknown(reply)


@given(st.text())
def test_any_text_gets_a_verdict(text: str) -> None:
    assert is_unknown(text) in (True, False)


@given(st.sampled_from(["no ", "the ", "(", "passages ", "not ", "but ", ", ", "so, ", "\n", "a "]))
def test_long_repetitive_replies_get_a_verdict(piece: str) -> None:
    assert is_unknown(piece * 5000) in (True, False)


@given(st.integers(min_value=1, max_value=2000))
def test_a_long_reply_is_judged_by_its_ends(repeats: int) -> None:
    middle = "The river rises in the hills and reaches the sea. " * repeats
    assert is_unknown("I don't know the answer. " + middle)
    assert is_unknown(middle + "So the answer is Unknown.")
    assert not is_unknown(middle)
    assert not is_unknown("The passages do not say. " + middle + "So the answer is Henry Ford.")


@pytest.mark.parametrize(
    ("draft", "nothing"),
    [
        ("I don't know.", True),
        ("I'm sorry, but I cannot assist with that.", True),
        ("I'm not sure about the river. Cedar Bridge was designed by Ada Moreno.", False),
        ("Cedar Bridge was designed by Ada Moreno.", False),
        ("Unknown", True),
    ],
)
def test_a_draft_may_know_nothing_at_all(draft: str, nothing: bool) -> None:
    assert knows_nothing(draft) is nothing
