"""The papers' sizes: sequence-to-sequence models in full, causal ones by low-rank adapters.

On several GPUs, each with the whole model: `accelerate launch --multi_gpu -m ragweave train …`.
`batch` is the rows of a step on all of them together, so results do not depend on their number.
"""

from __future__ import annotations
