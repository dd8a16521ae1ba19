"""Examples in the baselines' prompts: BlendFilter gives every method of its tables three of them.

Source: BlendFilter, section 4.1 and appendix F: the format is that of its own reasoning prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.errors import UsageError
from ragweave.nodes.blending import answered_examples, examples
from ragweave.nodes.options import Options, at_least
from ragweave.nodes.profile import Paper
from ragweave.state import Branch

MOST_SHOTS = 3


@dataclass(frozen=True, kw_only=True)
class ShotOptions(Options):
    """Options of a baseline that may be shown examples."""

    shots: int = 0
    """Examples in the prompt, 0 to 3; BlendFilter's tables give all methods three. With examples
    the prompt has that paper's form, which does not ask to say Unknown."""

    @property
    def own_paper(self) -> Paper:
        """BlendFilter."""
        return "blendfilter"

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        super().__post_init__()
        at_least("shots", self.shots, 0)
        if self.shots > MOST_SHOTS:
            raise UsageError(f"shots must be between 0 and {MOST_SHOTS}, not {self.shots}")


def reasoned(branch: Branch, options: ShotOptions) -> dict[str, str]:
    """Return the examples with their reasoning, as chain of thought shows them."""
    return {"examples": examples(branch["answer_type"], options.shots)}


def unreasoned(branch: Branch, options: ShotOptions) -> dict[str, str]:
    """Return the examples with their answers alone."""
    return {"examples": answered_examples(branch["answer_type"], options.shots)}
