"""The resources included with the matches of a search: `_include` and `_revinclude`, as far as the token may read it.

An include names a type and one of its search parameters that are references, and maybe the type that these lead to:
`Observation:performer:Practitioner`. Whatever is too much for one answer is refused, never left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import r4_name
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.query import MOST_BYTES
from engine.interchange.store.search.criterion import ParameterKind
from engine.interchange.store.search.page import INCLUDES, Pairs
from engine.interchange.store.transaction import StoredVersion, Transaction

# The most resources that one answer includes.
MOST: Final = 1_000
NAMED: Final = "SELECT DISTINCT target FROM reference_index WHERE key = ? AND parameter = ? ORDER BY target"
NAMING: Final = "SELECT key FROM reference_index WHERE tenant = ? AND target = ? AND parameter = ? ORDER BY key LIMIT ?"

May = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Include:
    """One include: the references in these rows of `type`, to resources of `target` only where that is named.

    `reverse`: what refers to the matches, not what they refer to.
    """

    type: str
    rows: str
    target: str
    reverse: bool


def read_includes(pairs: Pairs, type_name: str, version: FhirVersion) -> tuple[Include, ...]:
    """Return the includes that parameters ask for; RefusedError for what cannot come along."""
    return tuple(_read(name, value, type_name, version) for name, value in pairs if name in INCLUDES)


def _read(name: str, value: str, type_name: str, version: FhirVersion) -> Include:
    source, _, rest = value.partition(":")
    parameter_name, _, target = rest.partition(":")
    source, target, reverse = r4_name(source), r4_name(target), name == "_revinclude"
    definition = KEPT.get(source)
    parameter = definition.search_parameters(version).get(parameter_name) if definition else None
    if parameter is None or parameter.kind is not ParameterKind.REFERENCE:
        raise _refuse(name, f"{name} names a type and one of its search parameters that is a reference.")
    if (target if reverse else source) not in {type_name, ""} or (target and target not in KEPT):
        raise _refuse(name, f"What {name} names does not go with the type that is searched.")
    return Include(source, parameter.rows, target, reverse)


def included(
    transaction: Transaction, matches: Sequence[StoredVersion], includes: tuple[Include, ...], may: May
) -> list[StoredVersion]:
    """Return the resources included with some matches, each once, no match among them; RefusedError (400) for too many.

    `may` says what may be read of a type. Deleted resources are left out.
    """
    seen = {match.key for match in matches}
    found: list[StoredVersion] = []
    size = sum(len(match.body) for match in matches)
    for include in includes:
        for one in (
            _reverse(transaction, matches, include, may)
            if include.reverse
            else _forward(transaction, matches, include, may)
        ):
            if one.key in seen:
                continue
            seen.add(one.key)
            found.append(one)
            size += len(one.body)
            if len(found) > MOST or size > 2 * MOST_BYTES:
                text = "More would be included than one answer holds; ask for fewer matches at a time (_count)."
                raise refuse(Category.TOO_COSTLY, text, location="http.query")
    return found


def _forward(
    transaction: Transaction, matches: Iterable[StoredVersion], include: Include, may: May
) -> Iterator[StoredVersion]:
    seen: set[str] = set()
    for match in matches:
        for (target,) in transaction.connection.execute(NAMED, (match.key, include.rows)).fetchall():
            type_name, _, resource_id = target.partition("/")
            wanted = type_name in KEPT and include.target in {type_name, ""} and may(type_name, "r")
            if wanted and target not in seen:
                seen.add(target)
                stored = transaction.get(type_name, resource_id)
                if stored is not None and stored.body:
                    yield stored


def _reverse(
    transaction: Transaction, matches: Iterable[StoredVersion], include: Include, may: May
) -> Iterator[StoredVersion]:
    if not may(include.type, "s"):
        return
    for match in matches:
        # One more than may be included, apart from the matches themselves.
        naming = (transaction.tenant, f"{match.type}/{match.id}", include.rows, 2 * MOST)
        for (key,) in transaction.connection.execute(NAMING, naming).fetchall():
            yield transaction.by_key(key)


def _refuse(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")
