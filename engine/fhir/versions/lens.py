"""One difference between the versions: elements of STU3 that are other elements of R4.

A lens loses nothing: what the other side cannot express is preserved as an extension, and is restored on the way back
if the converted value is unchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.fhir.json import Json, JsonObject
from engine.fhir.versions.addresses import system_in_r4
from engine.fhir.versions.direction import Direction

Part = JsonObject
PartConversion = Callable[[Part], Part]


@dataclass(frozen=True, slots=True)
class Lens:
    """The names of the elements on both sides, and the functions that convert one side to the other.

    A function takes the elements that are present (`_name` too), with values still of the source version, and returns
    the other side's. With a `case`, a lens applies in that case only.
    """

    stu3: tuple[str, ...]
    r4: tuple[str, ...]
    to_r4: PartConversion
    to_stu3: PartConversion
    case: "LensCondition | None" = None


@dataclass(frozen=True, slots=True)
class LensCondition:
    """The elements and values, of STU3 and of R4, that a resource must have for a lens to apply.

    It is evaluated after the lenses before it have made the target's element. Otherwise `to_r4` and `to_stu3` apply.
    """

    stu3: Part
    r4: Part
    to_r4: PartConversion
    to_stu3: PartConversion


class LensSide:
    """A lens as one direction uses it."""

    __slots__ = ("_case", "_source", "_target", "_ways", "touched")

    def __init__(self, lens: Lens, direction: Direction) -> None:
        turned, case = (lens.stu3, lens.r4, lens.to_r4, lens.to_stu3), lens.case
        self._case = case.r4 if case else None
        others = (case.to_r4, case.to_stu3) if case else None
        if direction is Direction.TO_STU3:
            turned = (lens.r4, lens.stu3, lens.to_stu3, lens.to_r4)
            self._case = case.stu3 if case else None
            others = others[::-1] if others else None
        self._source, self._target = _with_companions(turned[0]), _with_companions(turned[1])
        self._ways = (turned[2:], others) if others else (turned[2:],)
        self.touched = frozenset((*self._source, *self._target))

    def turn(self, part: Part, home: Part) -> Part:
        """Replace this side's elements in a part by the other side's; return those to be preserved.

        `home` has the other side's preserved elements; those of the lens are removed from it.
        """
        given = {name: part.pop(name) for name in self._source if name in part}
        original = {name: home.pop(name) for name in self._target if name in home}
        if not given and not original:
            return {}
        ways = self._ways
        if self._case is not None and not self._case.items() <= part.items():
            ways = ways[::-1]
        # Each version evaluates the case by its own elements: the original may come from the other version.
        for _, back in ways if original else ():
            if back(original) == given:
                part.update(original)
                return {}
        forth, back = ways[0]
        converted = forth(given)
        part.update(converted)
        return {} if back(converted) == given else given


def nothing(_: Part) -> Part:
    """Convert to nothing, so that the given elements are preserved."""
    return {}


def _with_companions(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for name in names for one in (name, f"_{name}"))


def renamed(stu3: str, r4: str, case: LensCondition | None = None) -> Lens:
    """Return the lens of an element that has two names."""
    return Lens((stu3,), (r4,), _renaming(stu3, r4), _renaming(r4, stu3), case)


def first_of(stu3: str, r4: str) -> Lens:
    """Return the lens of an element that is single in STU3 and a list in R4; STU3 gets the first item."""
    return Lens((stu3,), (r4,), _listed(stu3, r4), _first(r4, stu3))


def first_of_stu3(stu3: str, r4: str) -> Lens:
    """Return the lens of an element that is single in R4 and a list in STU3."""
    return Lens((stu3,), (r4,), _first(stu3, r4), _listed(r4, stu3))


def only_if(name: str, fits: Callable[[Direction, Json], bool]) -> Lens:
    """Return the lens of an element for which each version allows some values only."""

    def checked(direction: Direction) -> PartConversion:
        return lambda part: part if fits(direction, part.get(name)) else {}

    return Lens((name,), (name,), checked(Direction.TO_R4), checked(Direction.TO_STU3))


def context() -> Lens:
    """Return the lens of a record's context: an encounter; in STU3, an episode of care as well."""

    def to_r4(part: Part) -> Part:
        episode = "EpisodeOfCare/" in str(part.get("context", {}).get("reference"))
        return {} if episode else _renaming("context", "encounter")(part)

    return Lens(("context",), ("encounter",), to_r4, _renaming("encounter", "context"))


def concept(names: tuple[str, str], system: str, codes: dict[str, str], lesser: dict[str, str] | None = None) -> Lens:
    """Return the lens of a code that is a CodeableConcept in R4; `names` are its names in STU3 and in R4.

    `codes` gives the R4 code of each STU3 code; `lesser` the STU3 code of those R4 codes that have none of their own.
    """
    stu3, r4 = names
    narrower = {**{value: key for key, value in codes.items()}, **(lesser or {})}

    def to_r4(part: Part) -> Part:
        code = codes.get(str(part.get(stu3)))
        return {r4: {"coding": [{"system": system, "code": code}]}} if code else {}

    def to_stu3(part: Part) -> Part:
        for coding in part.get(r4, {}).get("coding", []):
            # A value restored from an extension still has the other version's address.
            if system_in_r4(coding.get("system", "")) == system and coding.get("code") in narrower:
                return {stu3: narrower[coding["code"]]}
        return {}

    return Lens((stu3,), (r4,), to_r4, to_stu3)


def _renaming(old: str, new: str) -> PartConversion:
    names = {old: new, f"_{old}": f"_{new}"}
    return lambda part: {names[name]: value for name, value in part.items()}


def _listed(old: str, new: str) -> PartConversion:
    names = {old: new, f"_{old}": f"_{new}"}
    return lambda part: {names[name]: [value] for name, value in part.items()}


def _first(old: str, new: str) -> PartConversion:
    names = {old: new, f"_{old}": f"_{new}"}
    return lambda part: {names[name]: value[0] for name, value in part.items() if value and value[0] is not None}
