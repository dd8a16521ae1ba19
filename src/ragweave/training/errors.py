"""What stops a training that is no mistake of the caller's."""

from __future__ import annotations

from ragweave.errors import RagweaveError


class TrainingStoppedError(RagweaveError):
    """A training could not go on (a loss that is no number, a full disk); what is kept is named."""
