"""The interactions of every stored type: read, history, search and all writes; in sandboxes $validate."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from engine.config.service import Feature
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.events.subscriptions.settling import settle_subscription
from engine.interchange.orders.belonging import settle_test
from engine.interchange.orders.create import create as create_order
from engine.interchange.orders.create import replacing as replacing_order
from engine.interchange.orders.order import check_deletion
from engine.interchange.rest.binary.content import raw
from engine.interchange.rest.history import history_of_one, history_of_type, vread
from engine.interchange.rest.patient.write import create as create_patient
from engine.interchange.rest.patient.write import replacing as replacing_patient
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.definition import SUBSCRIPTION, Definition
from engine.interchange.rest.resource.delete import DeletionRule, delete, delete_matching
from engine.interchange.rest.resource.patch import patching
from engine.interchange.rest.resource.read import read
from engine.interchange.rest.resource.search import search
from engine.interchange.rest.resource.update import Replacement, create, replacing, updating, updating_matching
from engine.interchange.rest.resource.validate import validate
from engine.interchange.tokens.role import RoleRule
from engine.interchange.tokens.scope import PLACE_ORDERS

Run = Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]

# Types with their own rules for writes.
OWN_CREATE: Final[Mapping[str, Run]] = {
    "Patient": create_patient,
    "RequestGroup": create_order,
    "ServiceRequest": partial(create, settle=settle_test),
    SUBSCRIPTION: partial(create, settle=settle_subscription),
}
OWN_REPLACEMENT: Final[Mapping[str, Replacement]] = {
    "Patient": replacing_patient,
    "RequestGroup": replacing_order,
    "ServiceRequest": partial(replacing, settle=settle_test),
    SUBSCRIPTION: partial(replacing, settle=settle_subscription),
}
# Checked in every delete, as it may cascade to a patient's chart.
DELETION_RULES: Final[Mapping[str, DeletionRule]] = {"RequestGroup": check_deletion}
DELETE: Final[Run] = partial(delete, rules=DELETION_RULES)
DELETE_MATCHING: Final[Run] = partial(delete_matching, rules=DELETION_RULES)
# Flags that grant the create of a type as its scopes do.
ALSO: Final = {"RequestGroup": frozenset({PLACE_ORDERS})}


def interactions() -> tuple[Interaction, ...]:
    """Return the interactions of each stored type."""
    return tuple(interaction for definition in KEPT.values() for interaction in _interactions(definition))


def _interactions(of: Definition) -> tuple[Interaction, ...]:
    name = of.name
    # Any media type is read and written.
    binary = name == "Binary"
    reading, former = (raw(read), raw(vread)) if binary else (read, vread)
    making, replacement = OWN_CREATE.get(name, create), OWN_REPLACEMENT.get(name, replacing)
    return (
        Interaction(
            name, "read", InteractionLevel.INSTANCE, "GET", RequiredAccess.READ, of.reading, reading, raw=binary
        ),
        Interaction(name, "search-type", InteractionLevel.TYPE, "GET", RequiredAccess.READ, of.reading, search),
        Interaction(
            name,
            "search-type",
            InteractionLevel.TYPE,
            "POST",
            RequiredAccess.READ,
            of.reading,
            search,
            operation="_search",
            form=True,
        ),
        Interaction(
            name,
            "create",
            InteractionLevel.TYPE,
            "POST",
            RequiredAccess.WRITE,
            of.creating,
            making,
            raw=binary,
            also=ALSO.get(name, frozenset()),
        ),
        Interaction(
            name,
            "update",
            InteractionLevel.INSTANCE,
            "PUT",
            RequiredAccess.WRITE,
            of.writing,
            updating(replacement),
            raw=binary,
        ),
        Interaction(
            name,
            "update",
            InteractionLevel.TYPE,
            "PUT",
            RequiredAccess.WRITE,
            of.writing,
            updating_matching(replacement),
        ),
        Interaction(
            name, "delete", InteractionLevel.TYPE, "DELETE", RequiredAccess.WRITE, RoleRule.DELETE, DELETE_MATCHING
        ),
        Interaction(
            name, "patch", InteractionLevel.INSTANCE, "PATCH", RequiredAccess.WRITE, of.writing, patching(replacement)
        ),
        Interaction(name, "delete", InteractionLevel.INSTANCE, "DELETE", RequiredAccess.WRITE, RoleRule.DELETE, DELETE),
        Interaction(
            name,
            "vread",
            InteractionLevel.INSTANCE,
            "GET",
            RequiredAccess.READ,
            of.reading,
            former,
            "_history/",
            raw=binary,
        ),
        Interaction(
            name,
            "history-instance",
            InteractionLevel.INSTANCE,
            "GET",
            RequiredAccess.READ,
            of.reading,
            history_of_one,
            "_history",
        ),
        Interaction(
            name,
            "history-type",
            InteractionLevel.TYPE,
            "GET",
            RequiredAccess.READ,
            of.reading,
            history_of_type,
            "_history",
            tenant_wide=True,
        ),
        Interaction(
            name,
            "validate",
            InteractionLevel.TYPE,
            "POST",
            RequiredAccess.WRITE,
            of.creating,
            validate,
            "$validate",
            feature=Feature.VALIDATE,
        ),
    )
