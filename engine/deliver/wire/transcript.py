"""What a server has answered already within one delivery: each answer is given once where it is asked for again."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from engine.deliver.stored import Stored
from engine.deliver.wire.client import Answer
from engine.errors import DeliveryError
from engine.fhir.plan import Identity

CONDITIONS: Final = frozenset({"If-None-Exist", "If-Match"})

Headers = tuple[tuple[str, str], ...]


Recalled = dict[tuple[str, tuple[Identity, ...]], Stored]


class Transcript:
    """Answers, and failures to answer, by request and in their order.

    `recalled`: what was remembered, by type and identities, when the writes were made that are answered here.
    """

    def __init__(self) -> None:
        self.recalled: Recalled = {}
        self._answers: dict[str, deque[Answer | DeliveryError]] = {}

    def __bool__(self) -> bool:
        """Whether anything was answered already."""
        return bool(self._answers)

    def __contains__(self, request: str) -> bool:
        """Whether a request is answered here."""
        return bool(self._answers.get(request))

    def find(self, type_: str, identities: Sequence[Identity]) -> Stored | None:
        """Return the resource that was remembered under identities; None where none was."""
        return self.recalled.get((type_, tuple(identities)))

    def keep(self, request: str, answer: Answer | DeliveryError) -> None:
        """Add what came of a request (`name_of`)."""
        self._answers.setdefault(request, deque()).append(answer)

    def drop(self, request: str) -> None:
        """Take back what was added last for a request, if anything was."""
        if self._answers.get(request):
            self._answers[request].pop()

    def take(self, request: str) -> Answer | None:
        """Return the next answer to a request, None where there is none; raises the failure that it was."""
        left = self._answers.get(request)
        if not left:
            return None
        answer = left.popleft()
        if isinstance(answer, DeliveryError):
            raise answer
        return answer

    def clear(self) -> None:
        """Forget all of it."""
        self._answers.clear()
        self.recalled.clear()


def name_of(method: str, url: str, headers: Headers = ()) -> str:
    """Return what tells requests apart: method, address and condition."""
    return " ".join((method, url, *(value for name, value in headers if name in CONDITIONS)))
