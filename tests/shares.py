"""Count how many examples of a test were accepted, so that a test that could pass while everything is refused fails."""

from __future__ import annotations


class Share:
    """How many of the examples so far were accepted."""

    def __init__(self) -> None:
        self.examples = 0
        self.accepted = 0

    def count(self, accepted: bool) -> bool:
        """Add one example; return what was given."""
        self.examples += 1
        self.accepted += accepted
        return accepted

    def require(self, least: float) -> None:
        """Fail where fewer than this share were accepted: the test would say next to nothing."""
        assert self.examples, "there was no example"
        assert self.accepted >= least * self.examples, f"{self.accepted} of {self.examples} examples were accepted"
