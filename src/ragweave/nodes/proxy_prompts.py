"""Prompts of the slim proxy: draft, judge, rewriter.

Source: SlimPLM, sections 3.1 to 3.3 and Table 8. `judge` and `rewrite` put the paper's annotation
rules to any chat model, in our words, with the paper's output formats. `judge_released` and
`rewrite_released` are the form that the authors' fine-tuned models were trained on, to the letter:
its spelling and its fixed date are part of what those models know, and belong nowhere else.

Variables: `question`, and `draft` (the draft answer, or a claim of it).
"""

from __future__ import annotations

from types import MappingProxyType

from langchain_core.prompts import ChatPromptTemplate

_JUDGE = """\
You judge whether a question can be answered well without looking anything up. You are given the \
question and a draft answer that a small language model wrote from memory. If the draft answers \
the question fully and you are confident that it is right, a larger model knows the answer too.
Reply with <Known(True)> if the answer is known, or <Known(False)> if any part of it is missing, \
doubtful or wrong, and nothing else."""

_REWRITE = """\
You prepare web searches. You are given a question and a draft answer that may be wrong.
First name the searches that the question itself needs, if it has several parts; then split the \
draft into its claims and give each claim a query that checks it.
Rules:
1. Split by meaning: each claim is brief and makes one statement.
2. Add nothing to the draft and leave nothing of it out.
3. Each claim and each question stands by itself, with names in the place of pronouns.
4. A query follows from its claim and the user's question, and helps to check the claim.
5. Mark Search(False) where a claim has no bearing on the question or is common sense, and where \
a question needs no facts: small talk, arithmetic, code, creative writing.
Reply in the format of the example and with nothing else."""

EXAMPLE_QUESTION = "Who designed Cedar Bridge, and on which river does it stand?"
EXAMPLE_DRAFT = (
    "Cedar Bridge was designed by Ada Moreno. It stands on the river Osk. Bridges are useful."
)
EXAMPLE_REWRITE = """\
<Questions> <Question(Who designed Cedar Bridge?)> <NeedSearch(True)> <Query(Cedar Bridge \
designer)> <Question(On which river does Cedar Bridge stand?)> <NeedSearch(True)> <Query(river of \
Cedar Bridge)> </Questions>
<Claims> <Claim(Cedar Bridge was designed by Ada Moreno.)> <Search(True)> <Query(Ada Moreno Cedar \
Bridge designer)> <Claim(Cedar Bridge stands on the river Osk.)> <Search(True)> <Query(Cedar \
Bridge river Osk)> <Claim(Bridges are useful.)> <Search(False)> <Query()> </Claims>"""
"""The reply that the rewriter's example shows."""

_GIVEN = "Draft answer: {draft}\nQuestion: {question}"

_RELEASED = ChatPromptTemplate(
    [
        (
            "system",
            "You are a helpful assistant. Your task is to parse user input into structured "
            "formats according to the coarse answer. Current datatime is 2023-12-20 9:47:28",
        ),
        ("human", "Course answer: (({draft}))\nQuestion: (({question}))"),
    ]
)

PROXY_PROMPTS = MappingProxyType(
    {
        "draft": ChatPromptTemplate([("human", "{question}")]),
        "judge": ChatPromptTemplate([("system", _JUDGE), ("human", _GIVEN)]),
        "judge_released": _RELEASED,
        "rewrite": ChatPromptTemplate(
            [
                ("system", _REWRITE),
                ("human", _GIVEN.format(question=EXAMPLE_QUESTION, draft=EXAMPLE_DRAFT)),
                ("ai", EXAMPLE_REWRITE),
                ("human", _GIVEN),
            ]
        ),
        "rewrite_released": _RELEASED,
    }
)
"""The templates by name."""
