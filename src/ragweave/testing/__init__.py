"""Contract suites for anyone's methods, retrievers, stores and model specs.

Subclass one in your tests and pytest runs it. Besides ragweave they need only `pytest`.

    from ragweave.testing import MethodTests

    class TestMine(MethodTests):
        method = my_method
        replies = ["Ada Brenner"]
"""

from ragweave.testing.method import MethodTests
from ragweave.testing.scripted import CARDS, ModelCall, Record, RecordingRetriever, Script, ScriptedModel, unsure
from ragweave.testing.store import KnowledgeStoreTests
from ragweave.testing.suites import ChatModelSpecTests, RetrieverTests

__all__ = [
    "CARDS",
    "ChatModelSpecTests",
    "KnowledgeStoreTests",
    "MethodTests",
    "RetrieverTests",
    "ModelCall",
    "Record",
    "RecordingRetriever",
    "Script",
    "ScriptedModel",
    "unsure",
]
