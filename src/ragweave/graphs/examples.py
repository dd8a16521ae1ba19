"""Examples that prompts show: our own, and those that BlendFilter prints (appendix F, without their knowledge)."""

from __future__ import annotations

from typing import Literal

from ragweave.state import AnswerType

_MULTI_HOP = (
    (
        "Cedar Bridge | Cedar Bridge was designed by the engineer Ada Moreno and opened in 1934.\n"
        "Ada Moreno | Ada Moreno was an engineer from Portella who built bridges and dams.",
        "Where was the engineer who designed Cedar Bridge from?",
        "Cedar Bridge was designed by Ada Moreno. Ada Moreno was from Portella. So the answer is Portella.",
    ),
    (
        "North Star (ferry) | The ferry North Star entered service in 1962.\n"
        "Blue Heron (ferry) | The Blue Heron has sailed since 1958.",
        "Which ferry entered service first, North Star or Blue Heron?",
        "North Star entered service in 1962. Blue Heron has sailed since 1958, which is earlier. "
        "So the answer is Blue Heron.",
    ),
    (
        "The Salt Road | The Salt Road is a novel by Ines Falk about the port of Verra.\n"
        "Verra | Verra is a port on the river Osk, known for its glass works.",
        "On which river lies the port that The Salt Road is about?",
        "The Salt Road is about the port of Verra. Verra lies on the river Osk. So the answer is Osk.",
    ),
)

_YES_NO = (
    (
        "Camel | Camels can go without water for more than a week.",
        "Could a camel cross a desert for three days without drinking?",
        "Camels can go without water for more than a week. Three days are less than a week. So the answer is Yes.",
    ),
    (
        "Ice | Pure ice melts at 0 degrees Celsius.\nOven | Ovens bake at 150 degrees or more.",
        "Would an ice sculpture survive an hour in a hot oven?",
        "Ice melts at 0 degrees. A hot oven is at 150 degrees or more, so the ice would melt. So the answer is No.",
    ),
    (
        "Piano | A modern piano has 88 keys.\nChess | A chess board has 64 squares.",
        "Does a modern piano have more keys than a chess board has squares?",
        "A modern piano has 88 keys. A chess board has 64 squares, and 88 is more than 64. So the answer is Yes.",
    ),
)


def examples(answer_type: AnswerType, shots: int) -> str:
    """Return the first `shots` examples for a kind of answer, as a prompt shows them."""
    pool = _YES_NO if answer_type == "yes_no" else _MULTI_HOP
    return "".join(
        f"Knowledge:\n{knowledge}\nQuestion: {question}\nLet's think step by step.\n{reasoning}\n\n"
        for knowledge, question, reasoning in pool[:shots]
    )


_PRINTED = {
    "hotpotqa": (
        (
            "Are It Might Get Loud and Mr. Big both Canadian documentaries?",
            'Mr. Big is a 2007 documentary which examines the "Mr. Big" undercover methods used by the Royal Canadian '
            "Mounted Police. However, It Might Get Loud is a 2008 American documentary film.\nSo the answer is no.",
        ),
        (
            "Were László Benedek and Leslie H. Martinson both film directors?",
            "László Benedek was a Hungarian-born film director and Leslie H. Martinson was an American film director.\n"
            "So the answer is yes.",
        ),
        (
            "Lucium was confimed to be an impure sample of yttrium by an English chemist who became the president of what?",
            "Lucium was confimed to be an impure sample of yttrium by William Crookes. William Crookes is Sir William "
            "Crookes. Sir William Crookes became the president of the Society for Psychical Research.\n"
            "So the answer is Society for Psychical Research.",
        ),
    ),
    "2wiki": (
        (
            "Do both films The Falcon (Film) and Valentin The Good have the directors from the same country?",
            "Valentin The Good is directed by Martin Frič. Martin Frič was a Czech film director. The Falcon (Film) is "
            "directed by Vatroslav Mimica. Vatroslav Mimica is a Croatian film director. Czech is different from Croatia. "
            "So the answer is no.",
        ),
        (
            "What nationality is the director of film Wedding Night In Paradise (1950 Film)?",
            "Wedding Night In Paradise (1950 film) is directed by Géza von Bolváry. Géza von Bolváry was a Hungarian "
            "actor, screenwriter and film director. So the answer is Hungarian.",
        ),
        (
            "Who is Rhescuporis I (Odrysian)'s paternal grandfather?",
            "The father of Rhescuporis I (Odrysian) is Cotys III. The father of Cotys III is Raizdos. So the answer is "
            "Raizdos.",
        ),
    ),
    "strategyqa": (
        (
            "Do people take laxatives because they enjoy diarrhea?",
            "Laxatives are substances that loosen stools and increase bowel movements. People take laxatives to treat "
            "and/or prevent constipation. So the answer is No.",
        ),
        (
            "Could Durian cause someone's stomach to feel unwell?",
            "Durian has a pungent odor that many people describe as being similar to feet and onions. Unpleasant smells "
            "can make people feel nauseous. So the answer is Yes.",
        ),
        (
            "Did the swallow play a role in a famous film about King Arthur?",
            "Monty Python and the Holy Grail was a famous film about King Arthur. In Monty Python and the Holy Grail, "
            "swallows are mentioned several times. So the answer is Yes.",
        ),
    ),
}


def printed_examples(answer_type: AnswerType, shots: int, dataset: Literal["hotpotqa", "2wiki"]) -> str:
    """Return the first `shots` examples of appendix F; for verdicts they are StrategyQA's."""
    pool = _PRINTED["strategyqa" if answer_type == "yes_no" else dataset]
    return "".join(
        f"Question:{question}\nLet's think step by step.\n{reasoning}\n\n" for question, reasoning in pool[:shots]
    )


FOLLOW_UPS = """\
Question: Which ferry is longer, North Star or Blue Heron?
Are follow up questions needed here: Yes.
Follow up: How long is the ferry North Star?
Intermediate answer: The ferry North Star is 62 metres long.
Follow up: How long is the ferry Blue Heron?
Intermediate answer: The ferry Blue Heron is 85 metres long.
So the final answer is: Blue Heron

Question: In which town was the author of The Salt Road born?
Are follow up questions needed here: Yes.
Follow up: Who wrote The Salt Road?
Intermediate answer: The Salt Road was written by Ines Falk.
Follow up: In which town was Ines Falk born?
Intermediate answer: Ines Falk was born in Verra.
So the final answer is: Verra

Question: How many hours are there in three days?
Are follow up questions needed here: No.
So the final answer is: 72

"""
"""Self-Ask's dialogues."""

ACTIONS = """\
Question: Which ferry is longer, North Star or Blue Heron?
Thought 1: I need the length of both ferries. I start with North Star.
Action 1: Search[length of the ferry North Star]
Observation 1:
<passage 1 title="North Star (ferry)">
The North Star carries 300 passengers and is 62 metres long.
</passage>
Thought 2: North Star is 62 metres long. Now Blue Heron.
Action 2: Search[length of the ferry Blue Heron]
Observation 2:
<passage 1 title="Blue Heron (ferry)">
Built for lakes, the Blue Heron is 85 metres long.
</passage>
Thought 3: 85 metres are more than 62, so Blue Heron is longer.
Action 3: Finish[Blue Heron]

"""
"""ReAct's transcript."""
