"""The fields of the Chart API's objects: each with its JSON Schema and its reading; references of a chart resolved."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.network.patient360.record import Words
from engine.interchange.orders.laboratory.order import Resolver
from engine.interchange.rest.resource.catalogue import CHART, KEPT, SUPPORTING
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction

# The types that Patient/$everything returns: a token that may read the chart may see them.
OPEN: Final = frozenset(one.name for one in (*CHART, *SUPPORTING))


@dataclass(slots=True)
class ChartReader:
    """One snapshot of the store for the chart of `patient`; `may_see`: whether the token may read a type.

    `whole`: the token may read the whole chart, whatever it says of single types. `base_url` is the service's own.
    """

    transaction: Transaction
    patient: str
    words: Words
    may_see: Callable[[str], bool]
    base_url: str
    whole: bool = True
    _found: dict[str, JsonObject | None] = field(default_factory=dict)

    def find(self, reference: Json, within: Mapping[str, Json] | None = None) -> JsonObject | None:
        """Return the resource of a Reference, stored or contained in `within`; None if it may not be seen.

        A record of another patient is never part of this chart.
        """
        target = reference.get("reference", "") if isinstance(reference, dict) else ""
        if not isinstance(target, str) or not target:
            return None
        if target.startswith("#"):
            return Resolver(self.transaction, (dict(within or {}),))(target)
        target = local_target(target)
        if target not in self._found:
            self._found[target] = self._kept(target)
        return self._found[target]

    def _kept(self, target: str) -> JsonObject | None:
        definition = KEPT.get(target.partition("/")[0])
        if definition is None or not ((self.whole and definition.name in OPEN) or self.may_see(definition.name)):
            return None
        found = Resolver(self.transaction, ())(target)
        if found is None or not definition.patient:
            return found
        owner = found.get(definition.patient, {}).get("reference", "")
        return found if owner == f"Patient/{self.patient}" else None


Resource = JsonObject
Read = Callable[[Resource, ChartReader], Json]

TEXT: Final = {"type": "string"}
YES_NO: Final = {"type": "boolean"}
# FHIR's date or dateTime, as precise as it was said.
MOMENT: Final = {"type": "string", "pattern": r"^\d{4}(-\d{2}(-\d{2}(T.+)?)?)?$"}


@dataclass(frozen=True, slots=True)
class ChartField:
    """One field: left out if it has no value; an `always` field is required in the schema."""

    name: str
    schema: Json
    read: Read
    always: bool = False


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """A kind of object: its name among the schemas of the OpenAPI document, and its fields in order."""

    name: str
    fields: tuple[ChartField, ...]

    def of(self, resource: Resource, reader: ChartReader) -> JsonObject:
        """Return the object of a resource or of a part of one."""
        values = {one.name: one.read(resource, reader) for one in self.fields}
        return {name: value for name, value in values.items() if value not in (None, "", [], {})}

    def schema(self) -> JsonObject:
        """Return its JSON Schema."""
        required = [one.name for one in self.fields if one.always]
        schema = {"type": "object", "properties": {one.name: one.schema for one in self.fields}}
        return {**schema, **({"required": required} if required else {})}

    @property
    def link(self) -> JsonObject:
        """The reference to its schema within the OpenAPI document."""
        return {"$ref": f"#/components/schemas/{self.name}"}


def many(schema: Json) -> JsonObject:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def element(name: str) -> Read:
    """Return a reader of an element, unchanged."""
    return lambda resource, _: resource.get(name)


def text(name: str, path: str = "", *, always: bool = False) -> ChartField:
    """Return a field of an element that is a text or code."""
    return ChartField(name, TEXT, element(path or name), always)


def one(name: str, shape: ObjectShape, path: str) -> ChartField:
    """Return a field of one object, from the first element at a path."""

    def read(resource: Resource, reader: ChartReader) -> Json:
        found = listed(resource.get(path))
        return shape.of(found[0], reader) if found else None

    return ChartField(name, shape.link, read)


def several(name: str, shape: ObjectShape, path: str) -> ChartField:
    """Return a field of a list of objects, one for each element at a path."""
    return ChartField(name, many(shape.link), lambda resource, reader: _each(listed(resource.get(path)), shape, reader))


def _each(parts: list[Resource], shape: ObjectShape, reader: ChartReader) -> list[JsonObject]:
    return [made for part in parts if (made := shape.of(part, reader))]


def listed(value: Any) -> list[Any]:
    """Return an element of cardinality 0..1 or 0..* as a list."""
    if value is None:
        return []
    return [part for part in value if part is not None] if isinstance(value, list) else [value]


def moment(name: str, *stems: str) -> ChartField:
    """Return a field of the first moment present: `effective` reads effectiveDateTime, or the start of effectivePeriod.

    An age or a text is not a moment.
    """
    return ChartField(
        name, MOMENT, lambda resource, _: next(filter(None, (when(resource, stem) for stem in stems)), None)
    )


def when(resource: Resource, stem: str, end: str = "start") -> str:
    """Return the moment at an element, dated or a period; '' for none."""
    for suffix in ("", "DateTime", "Instant"):
        value = resource.get(f"{stem}{suffix}")
        if isinstance(value, str):
            return value if end == "start" else ""
    period = resource.get(stem) or resource.get(f"{stem}Period")
    found = period.get(end, "") if isinstance(period, dict) else ""
    return str(found)
