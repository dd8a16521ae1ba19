"""Search tools for agents: by exact words, by meaning, and reading whole passages.

Source: Du et al. 2026 (A-RAG: Scaling Agentic Retrieval-Augmented Generation via Hierarchical Retrieval
Interfaces, arXiv 2602.03442, section 3.2) and its released code: searches return snippets, the sentences that match;
a passage is read whole, and only once.

Where we differ: both searches rerank what a retriever finds, where the released code scans all chunks and all
sentence vectors. A passage's heading counts as its text. If no passage has a keyword, the search shows what the
retriever found. A snippet has at most three sentences.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import InjectedState

from ragweave.state.passages import as_document, heading_of, indexed_text, with_id
from ragweave.tools.embeddings.named import unit
from ragweave.tools.models.roles import unbound
from ragweave.tools.retrieval.base import known_of, takes_k
from ragweave.tools.text.untrusted import one_line, render_passage
from ragweave.tools.text.words import split_sentences, terms

SNIPPET = "snippet"
"""Metadata: the sentences of a passage that match a search."""
_DEPTH = 4
"""Passages that a search orders, for each that it returns."""
_SENTENCES = 3
"""Maximum sentences of a snippet."""
_LONGEST = 600
"""Maximum characters of a snippet."""
_TOOLS = ("keyword_search", "semantic_search", "read")


class SnippetRetriever(BaseRetriever):
    """Retrieves more passages than needed, reranks them, and adds their snippets.

    `words`: a passage scores the length of each keyword times how often it occurs, exactly except for case;
    keywords are separated by commas. Passages without any keyword are left out, unless no passage has any.
    `meaning`: a passage scores as its best sentence's cosine with the query; without embeddings the order
    stays, and the snippet is what shares most words with the query.
    """

    base: Any
    """Any LangChain retriever."""
    by: Literal["words", "meaning"]
    embeddings: Any = None
    """What embeds sentences; None: nothing."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int = 5
    ) -> list[Document]:
        settings = {"k": _DEPTH * k} if takes_k(self.base) else {}
        docs = self.base.invoke(query, {"callbacks": run_manager.get_child()}, **settings)
        return self.ordered(query, docs, k)

    def ordered(self, query: str, docs: Sequence[Document], k: int) -> list[Document]:
        """Return the k best of some passages, each with its snippet."""
        passages = [with_id(as_document(doc)) for doc in docs[: _DEPTH * k]]
        sentences = [[sentence.text for sentence in split_sentences(doc.page_content)] for doc in passages]
        if self.by == "words":
            words = (part.strip(" \t\"'“”.[]").casefold() for part in re.split(r"[,;\n]", query))
            keywords = [*filter(None, words)]
            scores = [_exact(keywords, indexed_text(doc.page_content, doc.metadata)) for doc in passages]
            weights = [[_exact(keywords, sentence) for sentence in texts] for texts in sentences]
        else:
            weights = self._similarities(query, sentences)
            scores = [max(each, default=0.0) if self.embeddings else 1.0 for each in weights]
        order = sorted(range(len(passages)), key=lambda at: -scores[at])
        matching = [at for at in order if scores[at] > 0] or order
        return [_with_snippet(passages[at], sentences[at], weights[at]) for at in matching[:k]]

    def _similarities(self, query: str, sentences: Sequence[Sequence[str]]) -> list[list[float]]:
        if self.embeddings is None or not any(sentences):
            query_terms = set(terms(query))
            return [[float(len(query_terms & set(terms(sentence)))) for sentence in texts] for texts in sentences]
        every = [sentence for texts in sentences for sentence in texts]
        vectors = unit(self.embeddings.embed_documents(every))
        near = iter((vectors @ unit([self.embeddings.embed_query(query)])[0]).tolist())
        return [[next(near) for _ in texts] for texts in sentences]


def _exact(keywords: Iterable[str], text: str) -> float:
    lowered = text.casefold()
    return float(sum(lowered.count(keyword) * len(keyword) for keyword in keywords))


def _with_snippet(passage: Document, sentences: Sequence[str], weights: Sequence[float]) -> Document:
    best = sorted(range(len(sentences)), key=lambda at: -weights[at])[:_SENTENCES]
    matching = [at for at in best if weights[at] > 0.5 * weights[best[0]]] or best[:1]
    snippet = " … ".join(sentences[at] for at in sorted(matching))
    return passage.model_copy(update={"metadata": {**passage.metadata, SNIPPET: snippet[:_LONGEST]}})


def keyword_search(retriever: Any) -> SnippetRetriever:
    """Return a search by exact words over the passages of any retriever."""
    return SnippetRetriever(base=known_of(retriever, "words") or retriever, by="words")


def semantic_search(retriever: Any) -> SnippetRetriever:
    """Return a search by meaning over the passages of any retriever."""
    store = getattr(unbound(retriever), "vectorstore", None)
    embeddings = known_of(retriever, "embeddings") or getattr(store, "embeddings", None)
    return SnippetRetriever(base=retriever, by="meaning", embeddings=embeddings)


def around(retriever: object, name: str, sides: int) -> list[Document]:
    """Return the passage of an id among its neighbours in its document, in order; nothing if the id is unknown."""
    places = known_of(retriever, "places")
    return places(name, sides) if places else []


def snippet_line(passage: Document, name: str) -> str:
    """Return a line that shows a passage's name, title and snippet."""
    title = one_line(heading_of(passage.metadata))
    return f"- {name}: {title and title + ': '}{one_line(str(passage.metadata.get(SNIPPET) or passage.page_content))}"


NOTHING = "Nothing was found. Try other words."
READ_BEFORE = "Passage {name} was read before: see above."
NO_PASSAGE = "There is no passage {name}: read takes the names that a search shows."

_Keywords = Annotated[str, "One to three names or terms as the text may have them, separated by commas."]
_Query = Annotated[str, "What to look for, in a sentence or a question."]
_Ids = Annotated[list[str], "The names of passages, as a search shows them."]
_Messages = Annotated[Any, InjectedState("messages")]


def search_tools(retriever: BaseRetriever, k: int = 5) -> list[BaseTool]:
    """Return the tools `keyword_search`, `semantic_search` and `read` over a retriever.

    An agent (`langchain.agents.create_agent`, or LangGraph's `ToolNode`) reads snippets and texts; the
    passages are each tool message's artifact. `read` knows by them what the conversation has read.

    Args:
        retriever: Any LangChain retriever; that of a knowledge base in a folder knows a passage's neighbours.
        k: Snippets a search.
    """
    by_words, by_meaning = keyword_search(retriever), semantic_search(retriever)

    def keyword_search_(keywords: _Keywords) -> tuple[str, list[Document]]:
        """Find passages that have exact words, such as names, numbers and terms; returns snippets."""
        return shown(by_words.invoke(keywords, k=k))

    def semantic_search_(query: _Query) -> tuple[str, list[Document]]:
        """Find passages by meaning, where their words are not known; returns snippets."""
        return shown(by_meaning.invoke(query, k=k))

    def shown(passages: list[Document]) -> tuple[str, list[Document]]:
        return "\n".join(snippet_line(passage, str(passage.id)) for passage in passages) or NOTHING, passages

    def read(ids: _Ids, messages: _Messages = ()) -> tuple[str, list[Document]]:
        """Read whole passages and what stands next to them; each can be read once."""
        ours = [message for message in messages if message.type == "tool" and message.name in _TOOLS]
        seen = [doc for message in ours for doc in message.artifact or ()]
        known = {doc.id for message in ours if message.name == "read" for doc in message.artifact or ()}
        lines, new = list[str](), list[Document]()
        for name in dict.fromkeys(ids):
            passages = around(retriever, name, 1) or [doc for doc in seen if doc.id == name][:1]
            unread = [passage for passage in passages if passage.id not in known]
            missing = (READ_BEFORE if passages else NO_PASSAGE).format(name=one_line(name))
            lines += [render_passage(str(passage.id), passage) for passage in unread] or [missing]
            new += unread
            known.update(passage.id for passage in passages)
        return "\n".join(lines), new

    return [
        StructuredTool.from_function(tool, name=tool.__name__.rstrip("_"), response_format="content_and_artifact")
        for tool in (keyword_search_, semantic_search_, read)
    ]
