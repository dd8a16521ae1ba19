"""Chat models by object or spec string, and the roles that they play."""

from ragweave.tools.models.errors import is_transient, status_of
from ragweave.tools.models.forms import Form, aoffered_forms, offered_forms
from ragweave.tools.models.roles import ChatModel, Models, Role, reply_limit, within_limit
from ragweave.tools.models.specs import MODELS, ModelProvider, chat_model

__all__ = [
    "MODELS",
    "ModelProvider",
    "ChatModel",
    "Form",
    "Models",
    "Role",
    "aoffered_forms",
    "chat_model",
    "is_transient",
    "offered_forms",
    "reply_limit",
    "status_of",
    "within_limit",
]
