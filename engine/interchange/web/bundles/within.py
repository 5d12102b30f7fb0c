"""A store bound to one open transaction: its reads and writes are part of that transaction."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from engine.interchange.store.store import Store
from engine.interchange.store.transaction import StoredVersion, Transaction

T = TypeVar("T")


class Within(Store):
    """Lets interactions read and write in the open transaction, which has one tenant: the argument is ignored."""

    def __init__(self, transaction: Transaction) -> None:
        self._inner = transaction

    def read(self, tenant: str, work: Callable[[Transaction], T]) -> T:  # noqa: ARG002 - of the one tenant
        """Run `work` on the transaction."""
        return work(self._inner)

    def find(self, tenant: str, type_name: str, resource_id: str) -> StoredVersion | None:  # noqa: ARG002 - of the one tenant
        """Return a resource by its id, as the transaction has it."""
        return self._inner.get(type_name, resource_id)

    async def write(self, tenant: str, work: Callable[[Transaction], T]) -> T:  # noqa: ARG002 - of the one tenant
        """Run `work` on the transaction; nothing is on disk before the whole is."""
        return work(self._inner)


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("an interaction waits within a transaction")
