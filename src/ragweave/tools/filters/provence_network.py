"""The network of Provence's released checkpoint. Importing it imports torch and transformers.

Source: the training code in BERGEN (`scripts/provence/modeling_provence.py`): DeBERTa's pooler and
the layer `classifier` at the first token rank the passage by their first output; the layer
`token_classifier` gives two logits for each token, of which the second means "keep".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import DebertaV2Config, DebertaV2Model
from transformers.models.deberta_v2.modeling_deberta_v2 import ContextPooler

from ragweave.errors import UsageError
from ragweave.tools.files import parse_json

_NOT_OURS = ("model_type", "architectures", "auto_map", "_name_or_path", "transformers_version")


class ProvenceNetwork(nn.Module):
    """DeBERTa with a head for tokens and one for the passage."""

    def __init__(self, config: DebertaV2Config) -> None:
        """Make the layers, with weights at random."""
        super().__init__()
        self.deberta = DebertaV2Model(config)
        self.pooler: nn.Module = ContextPooler(config)  # type: ignore[no-untyped-call]
        self.classifier = nn.Linear(config.hidden_size, config.num_labels or 1)
        self.token_classifier = nn.Linear(config.hidden_size, 2)

    def forward(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the tokens' logits, (windows, tokens, 2), and the ranking scores, (windows,)."""
        states = self.deberta(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
        ranking: Tensor = self.classifier(self.pooler(states))[:, 0]
        return self.token_classifier(states), ranking


def load_network(folder: Path) -> ProvenceNetwork:
    """Return the network of a checkpoint's folder, in single precision.

    Raises:
        UsageError: Its weights are missing, damaged, or those of another network.
    """
    settings: dict[str, Any] = parse_json((folder / "config.json").read_text("utf-8"))
    config = DebertaV2Config(**{k: v for k, v in settings.items() if k not in _NOT_OURS})
    network = ProvenceNetwork(config)
    path = folder / "model.safetensors"
    try:
        missing, _ = network.load_state_dict(load_file(path), strict=False)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise UsageError(f"{path}: can't be read as Provence's weights: {error}") from error
    if missing:
        raise UsageError(f"{path}: lacks {', '.join(missing[:3])}, which Provence's network has")
    return network.to(torch.float32).eval()
