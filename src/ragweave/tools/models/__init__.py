"""Chat models: from specs to LangChain models, what a call may ask of one, and what its reply says."""

from ragweave.tools.models.calls import is_transient, status_of
from ragweave.tools.models.roles import ChatModel, Models, Role
from ragweave.tools.models.specs import MODELS, ModelProvider, chat_model

__all__ = ["MODELS", "ChatModel", "ModelProvider", "Models", "Role", "chat_model", "is_transient", "status_of"]
