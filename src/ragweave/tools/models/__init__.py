"""Chat models by object or spec string, and the roles that they play."""

from ragweave.tools.models.faults import is_transient, status_of
from ragweave.tools.models.forms import Form, aoffered_forms, offered_forms
from ragweave.tools.models.limits import reply_limit, within_limit
from ragweave.tools.models.roles import ChatModel, Models, Role
from ragweave.tools.models.specs import chat_model
from ragweave.tools.providers import MODELS, ModelProvider

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
