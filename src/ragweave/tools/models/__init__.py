"""LangChain chat models of ragweave's own, what a call may ask of any, and what its reply says."""

from ragweave.tools.models.calls import is_transient, status_of
from ragweave.tools.models.roles import ChatModel, Models

__all__ = ["ChatModel", "Models", "is_transient", "status_of"]
