"""The protocols of models that were trained to search: marks, prompts and limits, as in the released code.

A checkpoint works only with the prompt that it was trained on, so these prompts are verbatim; `search_r1` names the
sources.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ragweave.nodes.prompts import PromptText
from ragweave.nodes.tags import Tags

Name = Literal["search_r1", "r1_searcher", "research", "autorefine", "o2_searcher"]


@dataclass(frozen=True)
class Protocol:
    """How a family of checkpoints searches."""

    prompt: PromptText
    query: Tags
    result: str
    """What follows a query; `{found}` is what was found."""
    passage: str
    """How a passage is shown; variables `number`, `title` and `text`."""
    k: int
    max_rounds: int
    invalid: str = ""
    """What follows a reply that neither searches nor answers; "": the answer is asked for at once."""
    chat: bool = False
    """Whether what was found comes as a user's message."""
    reply_tokens: int = 1024
    """Maximum tokens of a reply."""
    result_tokens: int | None = None
    """Maximum tokens of what follows a query, after which it is cut; None: no limit."""
    temperature: float | None = None
    """The temperature at which the checkpoints were evaluated; None: the model's own."""


_R1_PROMPT = """\
Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new \
information. After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query \
</search> and it will return the top searched results between <information> and </information>. You can search as many \
times as your want. If you find no further external knowledge needed, you can directly provide the answer inside \
<answer> and </answer>, without detailed illustrations. For example, <answer> Beijing </answer>. Question: {question}
"""
_R1_INVALID = """
My previous action is invalid. If I want to search, I should put the query between <search> and </search>. If I want to \
give the final answer, I should put the answer between <answer> and </answer>. Let me try again.
"""
_SEARCHER_PROMPT = """\
The User asks a question, and the Assistant solves it.
The Assistant first thinks about the reasoning process in the mind and then provides the User with the final answer.
The output format of reasoning process and final answer are enclosed within <think> </think> and <answer> </answer> \
tags, respectively, i.e., "<think> reasoning process here </think>

<answer> final answer here </answer>".
During the thinking process, the Assistant can perform searching for uncertain knowledge if necessary with the format \
of "<|begin_of_query|> search query (only keywords) here <|end_of_query|>". **A query must involve only a single \
triple**.
Then, the system will provide the Assistant with helpful information with the format of "<|begin_of_documents|> \
...search results... <|end_of_documents|>".

User:{question}
Assistant: <think>"""
_RESEARCH_PROMPT = (
    "You are a helpful assistant that can solve the given question step by step with the help of the wikipedia search "
    "tool. Given a question, you need to first think about the reasoning process in the mind and then provide the "
    "answer. During thinking, you can invoke the wikipedia search tool to search for fact information about specific "
    "topics if needed. The reasoning process and answer are enclosed within <think> </think> and <answer> </answer> "
    "tags respectively, and the search query and result are enclosed within <search> </search> and <result> </result> "
    "tags respectively. For example, <think> This is the reasoning process. </think> <search> search query here "
    "</search> <result> search result here </result> <think> This is the reasoning process. </think> <answer> The "
    "final answer is \\[ \\boxed{{answer here}} \\] </answer>. In the last part of the answer, the final exact answer "
    "is enclosed within \\boxed{{}} with latex format."
)
_REFINE_PROMPT = """\
You are a helpful assistant excel at answering questions with multi-turn search engine calling. To answer questions, \
you must first reason through the available information using <think> and </think>. If you identify missing knowledge, \
you may issue a search request using <search> query </search> at any time. The retrieval system will provide you with \
the three most relevant documents enclosed in <documents> and </documents>. After each search, you need to summarize \
and refine the existing documents in <refine> and </refine>. You may send multiple search requests if needed. Once you \
have sufficient information, provide a concise final answer using <answer> and </answer>. For example, <answer> Donald \
Trump </answer>. Question: {question}
"""
_O2_PROMPT = """\
As a expert researcher, provide comprehensive key findings for open-ended queries and precise answers to other specific \
questions. Each time you receive new information, you MUST first engage in reasoning within the <think> and </think> \
tags. After reasoning, if you realize that you lack certain knowledge, you can invoke a SEARCH action with distinct \
queries (one to five) using the <search>
<query>QUERY</query>
<query>QUERY</query>
</search> format to obtain relevant learnings, which will be presented between the <learnings> and </learnings> tags.
You are allowed to perform searches as many times as necessary. If you determine that no additional external \
knowledge is required, you can directly present the output within the <answer> and </answer> tags."""
_O2_INVALID = """\
The response you attempted before is invalid. If you plan to execute actions like SEARCH, you need to enclose the \
SEARCH queries within the <search> and </search> tags. Furthermore, the required queries for the SEARCH action should \
be placed between the <query> and </query> tags. Moreover, if you wish to present the final output for the initial \
query, you must wrap the result within the <answer> and </answer> tags.
"""
_SEARCH, ANSWER = Tags("<search>", "</search>"), Tags("<answer>", "</answer>")
_DOC = "Doc {number}(Title: {title}) {text}\n"
PROTOCOLS: Mapping[Name, Protocol] = {
    "search_r1": Protocol(
        _R1_PROMPT,
        _SEARCH,
        "\n\n<information>{found}</information>\n\n",
        _DOC,
        k=3,
        max_rounds=4,
        invalid=_R1_INVALID,
        result_tokens=500,
        temperature=0.0,
    ),
    "r1_searcher": Protocol(
        _SEARCHER_PROMPT,
        Tags("<|begin_of_query|>", "<|end_of_query|>"),
        "\n\n<|begin_of_documents|>\n{found}\n<|end_of_documents|>\n\n",
        "({number})Title: {title} Text: {text}\n",
        k=5,
        max_rounds=9,
        reply_tokens=512,
    ),
    "research": Protocol(
        [("system", _RESEARCH_PROMPT), ("human", "{question}")],
        _SEARCH,
        " <result>\n{found}\n</result>",
        '"{title}"\n{text}\n\n',
        k=5,
        max_rounds=8,
    ),
    "autorefine": Protocol(
        _REFINE_PROMPT,
        _SEARCH,
        "\n\n<documents>{found}</documents>\n\n",
        _DOC,
        k=3,
        max_rounds=5,
        invalid=_R1_INVALID,
        result_tokens=512,
        temperature=0.0,
    ),
    "o2_searcher": Protocol(
        [("system", _O2_PROMPT), ("human", "Initial query: {question}")],
        _SEARCH,
        "Search learnings: <learnings>{found}</learnings>.\n",
        '"{title}"\n{text}\n',
        k=3,
        max_rounds=4,
        invalid=_O2_INVALID,
        chat=True,
        reply_tokens=2048,
    ),
}
