"""Chat models by object or spec string, and the roles that they play."""

from ragweave.tools.models.faults import is_transient, status_of
from ragweave.tools.models.roles import ChatModel, Models, Role
from ragweave.tools.models.specs import chat_model
from ragweave.tools.providers import MODELS, ModelProvider

__all__ = [
    "MODELS",
    "ChatModel",
    "ModelProvider",
    "Models",
    "Role",
    "chat_model",
    "is_transient",
    "status_of",
]
