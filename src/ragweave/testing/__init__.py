"""Contract suites: what a method, a retriever, a metric or a model spec of anyone's must keep.

Subclass one in your tests and pytest runs it; `pytest` itself is all that they need beside
ragweave.

    from ragweave.testing import MethodTests

    class TestMine(MethodTests):
        method = METHOD
        replies = ["Ada Brenner"]
"""

from ragweave.testing.cases import CARDS, OptionCase, Setting
from ragweave.testing.chat_model import ChatModelSpecTests
from ragweave.testing.method import MethodTests
from ragweave.testing.metric import MetricTests
from ragweave.testing.retriever import RetrieverTests
from ragweave.testing.scripted import (
    ModelCall,
    RecordingRetriever,
    Script,
    ScriptedModel,
    unsure,
)

__all__ = [
    # suites
    "ChatModelSpecTests",
    "MethodTests",
    "MetricTests",
    "RetrieverTests",
    # passages
    "CARDS",
    # what a method's suite is told
    "OptionCase",
    "Setting",
    # scripts
    "ModelCall",
    "RecordingRetriever",
    "Script",
    "ScriptedModel",
    "unsure",
]
