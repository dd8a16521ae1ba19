"""Middlewares for LangChain's agents (extra `agents`)."""

from ragweave.agents.middleware import QuoteOrMark, RetrieveWhenUncertain

__all__ = ["QuoteOrMark", "RetrieveWhenUncertain"]
