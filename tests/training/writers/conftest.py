"""Tiny bases, made once a module; nothing is looked up, one thread a test."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("trl")


@pytest.fixture(scope="package", autouse=True)
def _quiet_and_offline():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    from tests.training.writers import tiny

    made = {}

    def base(kind):
        if kind not in made:
            made[kind] = tiny.BASES[kind](tmp_path_factory.mktemp("base"))
        return made[kind]

    return base
