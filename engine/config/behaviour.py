"""How a FHIR server behaves beyond what FHIR says, as values that delivery asks for."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from engine.config.http_client import plain_header_value, token
from engine.config.model import Frozen
from engine.config.text import Line

# Of an error's body, as much is searched for the words of a lock refusal.
SEARCHED_BYTES: Final = 65_536


class LockRefusal(Frozen):
    """The answers by which a server refuses a request because another one holds a lock; none without texts."""

    statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = Field(
        (), description="statuses of such an answer", examples=[[429]]
    )
    texts: tuple[Annotated[Line, Field(min_length=3)], ...] = Field(
        (), description="texts of which such an answer has one, in any case", examples=[["lock contention"]]
    )

    def matches(self, status: int, body: bytes) -> bool:
        """Say whether an answer is such a refusal."""
        if status not in self.statuses:
            return False
        said = body[:SEARCHED_BYTES].lower()
        return any(text.lower().encode() in said for text in self.texts)


class Behaviour(Frozen):
    """How a server behaves beyond what FHIR says."""

    read_headers: dict[Annotated[str, AfterValidator(token)], Annotated[str, AfterValidator(plain_header_value)]] = (
        Field({}, description="headers of each read and search, so that it shows what was written last")
    )
    idempotency_header: Annotated[str, AfterValidator(lambda name: name and token(name))] = Field(
        "",
        description="header of a create whose repeat is answered 409 with the original, for `create: idempotency-key`",
        examples=["x-amz-fhir-idempotency-key"],
    )
    bundle_entries: int = Field(
        200, ge=1, le=100_000, description="most entries of a transaction; the engine sends at most 200"
    )
    lock_refusal: LockRefusal = Field(
        LockRefusal(), description="answers after which the same is sent again after a pause of its own"
    )
