"""What an outside package writes to test its method: one class."""

from draft_check import draft_check

from ragweave.testing import MethodTests


class TestDraftCheck(MethodTests):
    method = draft_check
    replies = ("Ada Brenner", "Ada Brenner")
