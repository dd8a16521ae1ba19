"""Contract suites for anyone's methods, retrievers, stores, metrics and model specs.

Subclass one in your tests and pytest runs it. Besides ragweave they need only `pytest`.

    from ragweave.testing import MethodTests

    class TestMine(MethodTests):
        method = METHOD
        replies = ["Ada Brenner"]
"""

from ragweave.evaluation.replay import ReplayChat, ReplayRetriever
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
    pieces,
    unsure,
)
from ragweave.testing.store import KnowledgeStoreTests

__all__ = [
    # suites
    "ChatModelSpecTests",
    "KnowledgeStoreTests",
    "MethodTests",
    "MetricTests",
    "RetrieverTests",
    # passages
    "CARDS",
    # how a method's suite is set up
    "OptionCase",
    "Setting",
    # recorded replies
    "ReplayChat",
    "ReplayRetriever",
    # scripts
    "ModelCall",
    "RecordingRetriever",
    "Script",
    "ScriptedModel",
    "pieces",
    "unsure",
]
