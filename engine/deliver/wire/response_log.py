"""The responses of a server within one delivery, each used once for its request; and the answer that echoes a body.

Most servers answer an update with what they were sent, as a new version. To parse all of it would cost 15 us, and give
another copy of what is at hand: of each value, of each list, and so of what is known of them.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import orjson

from engine.deliver.stored import Body, ServerResource
from engine.deliver.wire.client import ServerResponse
from engine.errors import DeliveryError
from engine.fhir.plan import Identity

_META: Final = "meta"
# A character that JSON never holds unescaped.
_GAP: Final = b"\0"
_FRAGMENT: Final = orjson.Fragment(_GAP)


class EchoResponse:
    """A resource as it is sent (`content`), which the response is compared with; never changed afterwards."""

    __slots__ = ("_body", "_head", "_tail", "content")

    def __init__(self, body: Body) -> None:
        self._body = body
        known = _META in body
        self._head, _, self._tail = orjson.dumps(body | {_META: _FRAGMENT} if known else body).partition(_GAP)
        self.content = b"".join((self._head, orjson.dumps(body[_META]), self._tail)) if known else self._head

    def read(self, answer: bytes) -> Any:
        """Return the response as JSON where it is what was sent with another `meta`; else None."""
        head, tail = self._head, self._tail
        if not (tail and len(head) + len(tail) < len(answer) and answer.startswith(head) and answer.endswith(tail)):
            return None
        try:
            return self._body | {_META: orjson.loads(answer[len(head) : len(answer) - len(tail)])}
        except orjson.JSONDecodeError:
            return None


CONDITIONS: Final = frozenset({"If-None-Exist", "If-Match"})

Headers = tuple[tuple[str, str], ...]


Recalled = dict[tuple[str, tuple[Identity, ...]], ServerResource]


class ResponseLog:
    """Responses and failures by request, in order.

    `recalled`: the remembered resources, by type and identities, at the time of the logged writes.
    """

    def __init__(self) -> None:
        self.recalled: Recalled = {}
        self._answers: dict[str, deque[ServerResponse | DeliveryError]] = {}

    def __bool__(self) -> bool:
        """Whether it holds any response."""
        return bool(self._answers)

    def __contains__(self, request: str) -> bool:
        """Whether it holds a response to a request."""
        return bool(self._answers.get(request))

    def find(self, type_: str, identities: Sequence[Identity]) -> ServerResource | None:
        """Return the resource that was remembered under identities; None where none was."""
        return self.recalled.get((type_, tuple(identities)))

    def keep(self, request: str, answer: ServerResponse | DeliveryError) -> None:
        """Add the response or failure of a request (`name_of`)."""
        self._answers.setdefault(request, deque()).append(answer)

    def drop(self, request: str) -> None:
        """Remove the last response to a request, if there is one."""
        if self._answers.get(request):
            self._answers[request].pop()

    def take(self, request: str) -> ServerResponse | None:
        """Return the next response to a request, None where there is none; raises a logged failure."""
        left = self._answers.get(request)
        if not left:
            return None
        answer = left.popleft()
        if isinstance(answer, DeliveryError):
            raise answer
        return answer

    def clear(self) -> None:
        """Remove everything."""
        self._answers.clear()
        self.recalled.clear()


def name_of(method: str, url: str, headers: Headers = ()) -> str:
    """Return what tells requests apart: method, address and condition."""
    return " ".join((method, url, *(value for name, value in headers if name in CONDITIONS)))
