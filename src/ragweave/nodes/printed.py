"""The prompts that the papers print, by the name of ours that each stands beside: `NAME@PAPER`.

Instructions are the papers'; how passages are set off, and the examples shown, are ours. Sources:
BlendFilter, appendix F; SlimPLM, sections 3.2 and 3.3 and tables 6, 9 and 10, and its released code
for what the paper only names (vanilla chat, CoT, Self-Eval); FILCO, released code; Chain-of-Note,
appendix A.5 of version 2; SuRe, released code; IRCoT, section 3.1 and the released configurations
for Flan-T5; DOS RAG, released code.

Not printed in any text that we have, so that ours stand: BlendFilter's internal augmentation, its
short answers on HotPotQA and 2WikiMultihopQA, and its ReAct and SelfAsk; Liu et al.'s prompts, which
are pictures (figures 7 to 9), but for their clause on Unknown.
"""

from __future__ import annotations

from types import MappingProxyType

from langchain_core.prompts import ChatPromptTemplate

from ragweave.nodes.ask import Templates

_FORMAT = "Answer questions following the given format.\n\n{examples}"
_STEPS = "Let's think step by step."
_KNOWN = "Knowledge:\n{passages}\n"

_BLENDED = ChatPromptTemplate([("human", f"{_FORMAT}{_KNOWN}Question: {{question}}\n{_STEPS}")])
_BLENDED_CLOSED = ChatPromptTemplate([("human", f"{_FORMAT}Question: {{question}}\n{_STEPS}")])

BLENDING: Templates = MappingProxyType(
    {
        "external@blendfilter": _BLENDED,
        "reason@blendfilter": _BLENDED,
        "reason_closed@blendfilter": _BLENDED_CLOSED,
        "short_answer@blendfilter": ChatPromptTemplate(
            [
                (
                    "human",
                    "Question: {question}\n" + _STEPS + "\n{draft}\n\nAnswer the following "
                    "question based on the given context. {answer_form}\nQuestion: {question}",
                )
            ]
        ),
    }
)

SHOTS: Templates = MappingProxyType(
    {
        "direct_shots@blendfilter": ChatPromptTemplate(
            [("human", _FORMAT + _KNOWN + "Question: {question}\nAnswer:")]
        ),
        "direct_shots_closed@blendfilter": ChatPromptTemplate(
            [("human", _FORMAT + "Question: {question}\nAnswer:")]
        ),
        "cot_shots@blendfilter": _BLENDED,
        "cot_shots_closed@blendfilter": _BLENDED_CLOSED,
    }
)

_TOPIC = ("human", "What general topic is Question {question} related to?")
_NAMED = ("ai", "The topic is related to {topic}.")
_CONSIDER = "Please only consider the knowledge below.\n{passages}\n"
_CHECK = (
    "Please check the relevance between {question} and knowledges 0-{last} one by one, remove the "
    "irrelevant ones and show me the relevant ones. There may be multiple relevant ones"
)
_BREATHE = " Please take a deep breath and do it step by step."
_FORGET = ("human", f"Forget your knowledge about {{topic}}. {_CONSIDER}{_CHECK}.{_BREATHE}")
_PLAIN = ("human", f"{_CONSIDER}{_CHECK}, or no relevant one.{_BREATHE}")
_CHECKED = ("ai", "{relevance}")
_IDS = (
    "Please check the relevance between the given question and knowledges 0-{last} one by one based "
    "on the given context. ONLY output the relevant knowledge ids (0-{last}). There may be multiple "
    "relevant ones"
)

KNOWLEDGE: Templates = MappingProxyType(
    {
        "topic@blendfilter": ChatPromptTemplate([_TOPIC]),
        "relevance@blendfilter": ChatPromptTemplate([_TOPIC, _NAMED, _FORGET]),
        "relevance_any_topic@blendfilter": ChatPromptTemplate([_PLAIN]),
        "ids@blendfilter": ChatPromptTemplate(
            [_TOPIC, _NAMED, _FORGET, _CHECKED, ("human", f"{_IDS}.")]
        ),
        "ids_any_topic@blendfilter": ChatPromptTemplate(
            [_PLAIN, _CHECKED, ("human", f"{_IDS}, or no relevant one.")]
        ),
    }
)

_REFERENCE = (
    "Now, based on the following reference and your knowledge, please answer the question more "
    "succinctly and professionally. The reference is delimited by triple brackets [[[]]]. The "
    "question is delimited by triple parentheses ((())). {answer_form}"
)
_REFERRED = "Reference: [[[\n{passages}\n]]], question: ((({question})))"

REFERRED = ChatPromptTemplate([("system", _REFERENCE), ("human", _REFERRED)])
"""SlimPLM's prompt over a reference, the same for all of its methods."""

REFERENCE: Templates = MappingProxyType({"reference@slimplm": REFERRED})

ANSWERS: Templates = MappingProxyType(
    {
        "direct@slimplm": ChatPromptTemplate([("human", "{question}")]),
        "direct_passages@slimplm": REFERRED,
        "cot@slimplm": ChatPromptTemplate([("human", f"Question: {{question}}\n{_STEPS}")]),
        "cot_passages@slimplm": ChatPromptTemplate(
            [
                ("system", _REFERENCE),
                ("human", f"{_REFERRED} think step by step to answer the question"),
            ]
        ),
        "direct@filco": ChatPromptTemplate([("human", "question: {question}")]),
        "direct_passages@filco": ChatPromptTemplate(
            [("human", "context: {passages}\nquestion: {question}")]
        ),
    }
)

GENERATE: Templates = MappingProxyType(
    {"generate@filco": ChatPromptTemplate([("human", "context: {passages}\nquestion: {question}")])}
)

_PARSES = (
    "You are a helpful assistant. Your task is to parse user input into structured formats and "
    "accomplish the task according to the heuristic answer."
)
_HEURISTIC = "Heuristic answer: {draft}\nQuestion: {question}\n"

PROXY: Templates = MappingProxyType(
    {
        "judge@slimplm": ChatPromptTemplate(
            [
                ("system", _PARSES),
                (
                    "human",
                    _HEURISTIC + "Retrieval Necessity Judgment Output, Known (True / False):",
                ),
            ]
        ),
        "rewrite@slimplm": ChatPromptTemplate(
            [
                ("system", _PARSES),
                (
                    "human",
                    _HEURISTIC + "Query Rewrite Output, <Claim> Claim 1 <Query> Query 1 <Claim> "
                    "Claim 2 <Query> Query 2, ...:",
                ),
            ]
        ),
    }
)
"""The judge's and the rewriter's instructions, with the output that the paper shows for them."""

_NEED = "Question: [[{question}]] Do you need additional information to answer this question?"
_NEEDED = "Yes, I need additional information."
_NOT_NEEDED = "No, I don't need additional information."

DECISION: Templates = MappingProxyType(
    {
        "self_eval@slimplm": ChatPromptTemplate(
            [
                (
                    "system",
                    "Based on your knowledge you should tell if you need additional information to "
                    "answer the following questions.",
                ),
                (
                    "human",
                    _NEED.format(question="What is the boiling point of water at sea level?"),
                ),
                ("ai", _NOT_NEEDED),
                ("human", _NEED.format(question="Who was the second mayor of Eastbourne?")),
                ("ai", _NEEDED),
                ("human", _NEED.format(question="Which ocean lies between Africa and America?")),
                ("ai", _NOT_NEEDED),
                ("human", _NEED),
            ]
        )
    }
)

FLARE: Templates = MappingProxyType(
    {
        "flare@slimplm": ChatPromptTemplate([("human", "{question}{written}")]),
        "flare_passages@slimplm": ChatPromptTemplate(
            [("human", "Search results:\n{passages}\n{question}{written}")]
        ),
    }
)

SELF_ASK_TASK = (
    "Given the following question, answer it by providing follow up questions and intermediate "
    "answers. If no follow up questions are necessary, answer the question directly."
)

SELF_ASK_READER = ChatPromptTemplate(
    [
        (
            "system",
            "Given the following reference, answer it by a brief sentence. You are not allowed to "
            "add fabrications or hallucinations.",
        ),
        ("human", "{passages}\n\nQuestion: {question}\nAnswer:"),
    ]
)

NOTES: Templates = MappingProxyType(
    {
        "chain_of_note@chain_of_note": ChatPromptTemplate(
            [
                (
                    "human",
                    "Task Description:\n1. Read the given question and five Wikipedia passages to "
                    "gather relevant information.\n2. Write reading notes summarizing the key "
                    "points from these passages.\n3. Discuss the relevance of the given question "
                    "and Wikipedia passages.\n4. If some passages are relevant to the given "
                    "question, provide a brief answer based on the passages.\n5. If no passage is "
                    "relevant, directly provide an answer without considering the passages.\n\n"
                    "Question: {question}\n\n{passages}",
                )
            ]
        )
    }
)
"""Chain-of-Note's instruction for prompted models; its line on five passages is the paper's."""

SURE: Templates = MappingProxyType(
    {
        "sure@sure": ChatPromptTemplate(
            [
                (
                    "human",
                    "Below are {shown} passages related to the question at the end. After reading "
                    "the passages, provide {counted} correct candidates for the answer to the "
                    "question at the end. Each answer should be in the form: (a) xx, (b) yy, and "
                    "should not exceed 3 words for each candidate.\n\n{passages}\n\nQuestion:\n"
                    "{question}\n\nAnswer: ",
                )
            ]
        ),
        "sure_summary@sure": ChatPromptTemplate(
            [
                (
                    "human",
                    "{passages}\n\nYour job is to act as a professional writer. You will write a "
                    "good-quality passage that can support the given prediction about the question "
                    "only based on the information in the provided supporting passages.\n\nNow, "
                    "let's start. After you write, please write [DONE] to indicate you are done. Do "
                    'not write a prefix (e.g., "Response:") while writing a passage.\n\nQuestion: '
                    "{question}\nChoices: {choices}\nPrediction: ({letter}) {prediction}\nPassage: ",
                )
            ]
        ),
        "sure_valid@sure": ChatPromptTemplate(
            [
                (
                    "human",
                    "Question:\n{question}\n\nPrediction:\n{prediction}\n\nPassage:\n{summary}\n\n"
                    "Does the passage correctly support the prediction? Choices: [True, False]. "
                    "Answer:",
                )
            ]
        ),
        "sure_rank@sure": ChatPromptTemplate(
            [
                (
                    "human",
                    "Question: Given the following passages, determine which one provides a more "
                    "informative answer to the subsequent question.\n\nPassage 1:\n{first}\n\n"
                    "Passage 2:\n{second}\n\nTarget Question:\nQuestion: {question}\n\nYour Task:\n"
                    "Identify which passage (Passage 1 or Passage 2) is more relevant and "
                    "informative to answer the question at hand. Choices: [Passage 1, Passage 2]."
                    "\n\nAnswer:",
                )
            ]
        ),
    }
)

_BY_STEPS = "Q: Answer the following question by reasoning step-by-step.\n"
_SALT_ROAD = (
    "Wikipedia Title: The Salt Road\nThe Salt Road is a novel by Ines Falk about the port of Verra."
    "\n\nWikipedia Title: Verra\nVerra is a port on the river Osk, known for its glass works.\n\n"
)
_LIES = "On which river lies the port that The Salt Road is about?"
_CHAINED = (
    "The Salt Road is about the port of Verra. Verra is a port on the river Osk. So the answer is: "
    "Osk."
)

IRCOT: Templates = MappingProxyType(
    {
        "ircot@ircot": ChatPromptTemplate(
            [
                ("human", f"{_SALT_ROAD}{_BY_STEPS}{_LIES}\nA:"),
                ("ai", _CHAINED),
                ("human", f"{{passages}}\n\n{_BY_STEPS}{{question}}\nA: {{chain}}"),
            ]
        )
    }
)
"""IRCoT's reasoner: the chain so far stands behind `A:`, to be gone on with."""

READ_PAGES: Templates = MappingProxyType(
    {
        "cot_passages@ircot": ChatPromptTemplate(
            [
                ("human", f"{_SALT_ROAD}{_BY_STEPS}{_LIES}\nA:"),
                ("ai", _CHAINED),
                ("human", f"{{passages}}\n\n{_BY_STEPS}{{question}}\nA:"),
            ]
        ),
        "concat@ircot": ChatPromptTemplate(
            [
                ("human", f"{_SALT_ROAD}Q: Answer the following question.\n{_LIES}\nA:"),
                ("ai", "Osk"),
                ("human", "{passages}\n\nQ: Answer the following question.\n{question}\nA:"),
            ]
        ),
        "concat@chain_of_note": ChatPromptTemplate(
            [
                (
                    "human",
                    "Task Description: The primary objective is to briefly answer the question."
                    "\n\nQuestion: {question}\n\n{passages}",
                )
            ]
        ),
        "concat@sure": ChatPromptTemplate(
            [
                (
                    "human",
                    "{passages}\n\nTask description: predict the answer to the following question. "
                    "Do not exceed 3 words.\n\nQuestion: {question}.\n\nAnswer: ",
                )
            ]
        ),
        "direct@sure": ChatPromptTemplate(
            [
                (
                    "human",
                    "Task description: predict the answer to the following question. Do not exceed "
                    "3 words.\n\nQuestion: {question}.\n\nAnswer: ",
                )
            ]
        ),
        "concat@dos_rag": ChatPromptTemplate(
            [
                ("system", "You are Question Answering Portal"),
                (
                    "human",
                    "[Start of Context]:\n\n{passages}\n\n[End of Context]\n\n[Start of Question]:"
                    "\n\n{question}\n\n[End of Question]\n\n[Instructions:]\n- Answer the question "
                    "**only** based on the provided context.\n- Keep the answer **short and "
                    "factual** (preferably between 1-20 words).\n- Do **not** provide explanations "
                    "or additional details beyond what is necessary.\n- If the answer is **not "
                    'explicitly stated** in the context, respond with: "Not found in context."',
                ),
            ]
        ),
    }
)
"""The readers' prompts: IRCoT's two, and the baselines of Chain-of-Note, SuRe and DOS RAG."""
