"""Chat models by object or spec string, and the roles that they play."""

from ragweave.tools.models.faults import is_transient, status_of
from ragweave.tools.models.forms import Form, aoffered_forms, offered_forms
from ragweave.tools.models.limits import reply_limit, within_limit
from ragweave.tools.models.roles import ChatModel, Models, Role
from ragweave.tools.models.specs import chat_model

__all__ = [
    *("ChatModel", "Models", "Role", "chat_model"),
    *("Form", "offered_forms", "aoffered_forms", "reply_limit", "within_limit"),
    *("is_transient", "status_of"),
]
