"""`hf:FOLDER`: causal models by LangChain's pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.extras import needs
from tests.tiny_models import make_tiny_llama

from ragweave import build_graph
from ragweave.errors import ModelError, UsageError
from ragweave.tools.providers import chat_model

needs("torch", "transformers", "langchain_huggingface")
pytestmark = pytest.mark.filterwarnings("default")  # the libraries' own


def test_a_folder_is_a_chat_model_that_knows_its_context(tmp_path: Path) -> None:
    folder = make_tiny_llama(tmp_path / "model")
    (folder / "chat_template.jinja").write_text("{% for one in messages %}{{ one.content }}{% endfor %}", "utf-8")
    model = chat_model(f"hf:{folder}?max_tokens=4&temperature=0")
    first, second = (model.invoke("Who?") for _ in range(2))
    assert first.text == second.text
    assert "Who?" not in first.text
    assert getattr(model, "profile", {})["max_input_tokens"] == 1024
    given = {"question": "Who?", "passages": ["Ada."]}
    assert build_graph("concat", model=model).invoke(given)["usage"]["calls"] == 1


def test_a_mistake_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no setting 'colour'"):
        chat_model(f"hf:{tmp_path}?colour=red")
    with pytest.raises(ModelError, match="is not on this machine"):
        chat_model(f"hf:{tmp_path}/none")
    folder = make_tiny_llama(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises((OSError, ModelError), match="safetensors"):
        chat_model(f"hf:{folder}")
