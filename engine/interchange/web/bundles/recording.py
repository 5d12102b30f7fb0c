"""The access log of a Bundle: each entry has its own row, whose request id ends with the entry's number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from engine.interchange.core.audit.entry import ENTRY, entry, named_in
from engine.interchange.core.exchange import HttpAnswer, Interaction
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.store.access import AccessRow, joined, touching
from engine.interchange.store.transaction import milliseconds
from engine.interchange.web.bundles.plan import BundleSender, routed
from engine.interchange.web.bundles.step import BundleStep
from engine.interchange.web.http.recording import reached

REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class EntryLog:
    """Makes the rows of one Bundle's entries.

    `base` is the FHIR version that was called, `origin` where the Bundle came from, and its request id. `rows` are
    those that are not on disk yet: the Bundle's answer waits for them.
    """

    service: Service
    sender: BundleSender
    base: str
    origin: tuple[str, str]
    rows: list[AccessRow]

    def row(
        self,
        step: BundleStep,
        interaction: Interaction,
        resource_id: str,
        answer: HttpAnswer | None = None,
        *,
        within: Service | None = None,
        touched: Iterable[str] = (),
    ) -> AccessRow:
        """Return the row of an entry, with its answer if there is one yet.

        `within` is the service in the transaction under way, `touched` are those whose records the entry has written.
        """
        service = within or self.service
        refused = answer is not None and answer.status >= REFUSED
        query = tuple(parse_qsl(step.query.replace("%00", ""), keep_blank_values=True))
        text = write_json(step.body) if refused and step.body is not None else b""
        named = named_in(interaction, resource_id, query, text, self.sender.base)
        address, request = self.origin
        origin = (address, f"{request}{ENTRY}{step.number}")
        at_ms = milliseconds(service.clock())
        made = entry(at_ms, self.base, self.sender.principal, interaction, resource_id, named, answer, origin)
        made = touching(made, touched)
        if answer is None or (made.patients and not refused):
            return made
        patients = reached(service, self.sender.principal.tenant, interaction, resource_id, query, text)
        return made._replace(patients=joined((*made.patients.split(), *patients)))

    def refuse(self, steps: Sequence[BundleStep], refusal: RefusedError) -> None:
        """Add the rows of a refused transaction: only the entry at fault has its own status."""
        place = refusal.issues[0].location
        for step in steps:
            try:
                route = routed(self.service, self.sender, step)
            except RefusedError:
                continue
            row = self.row(step, route.interaction, route.id, HttpAnswer(refusal.category.status))
            at_fault = place.startswith(f"Bundle.entry[{step.number}]")
            self.rows.append(row if at_fault else row._replace(status=0))
