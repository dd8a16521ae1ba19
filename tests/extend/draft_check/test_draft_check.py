"""What an outside package writes to test its method: one class."""

from draft_check import METHOD

from ragweave.testing import MethodTests


class TestDraftCheck(MethodTests):
    method = METHOD
    replies = ("Ada Brenner", "Ada Brenner")
