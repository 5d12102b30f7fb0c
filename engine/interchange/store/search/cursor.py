"""Cursors: the position in the pages of a search, carried by the client in its next link.

A cursor says behind which key the next page starts. Keys are given in order of creation and never change, so that
whatever is written meanwhile, a walk repeats no record and misses none that was there when it began.
"""

from dataclasses import dataclass, field

from engine.interchange.kernel.seal import Payload, seal, unseal
from engine.interchange.store.search.page import Pairs, ResultPage


@dataclass(frozen=True, slots=True)
class CursorWalk:
    """One walk by cursor at one moment: what its cursors are signed with and bound to, and how long they hold."""

    secret: bytes = field(repr=False)
    bound: Payload
    now_ms: int
    validity_s: int

    def start(self, page: ResultPage) -> int:
        """Return the key behind which a page starts, 0 for the first; RefusedError 400 or 410 for a bad cursor."""
        if page.cursor is None:
            return 0
        return int(unseal(self.secret, self.bound, page.cursor, self.now_ms, "http._cursor")[0])

    def following(self, page: ResultPage, last_key: int) -> ResultPage:
        """Return the page behind a key; its cursor's time begins now."""
        cursor = seal(self.secret, self.bound, (last_key,), self.now_ms + self.validity_s * 1000)
        return ResultPage(page.count, cursored=True, cursor=cursor, form=page.form)


def walk_of(tenant: str, version: str, type_name: str, page: ResultPage, criteria: Pairs) -> Payload:
    """Return what the cursors of a walk are bound to; in whatever order a client repeats its criteria."""
    return ("cursor", tenant, version, type_name, page.count, *(part for pair in sorted(criteria) for part in pair))
