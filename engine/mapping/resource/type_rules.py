"""What FHIR asks of a resource file as a whole: a type with numbers, whose it is, and all that the type requires."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from engine.config.wording import folded
from engine.fhir.r4 import choices, required_choices
from engine.mapping.files.reference import REFERENCE, RESOURCES, elements, nearest, page_of, resource_types
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler

PATIENT: Final = "Patient"
IDENTIFIER: Final = "identifier"
# Elements that say whose a resource is: where a type has one of these for patients, its file says so.
HOLDERS: Final = ("patient", "subject", "beneficiary", "for")
CHOICE: Final = "[x]"


def known_type(compiler: Compiler, scope: Scope, type_: str) -> bool:
    """Say whether FHIR R4 has a resource type; note where it has not, and where its resources have no numbers."""
    if type_ not in resource_types():
        compiler.problem(
            scope.at("resource"), f"unknown resource {type_!r}", nearest(type_, resource_types(), RESOURCES)
        )
        return False
    if not is_listed(type_):
        count = "one identifier" if IDENTIFIER in elements()[type_] else "no identifier"
        what = f"{type_} has {count}, not a list by which it would be found"
        compiler.problem(
            scope.at("resource"), what, "map a type that has one, such as Basic, whose code says what it is"
        )
        return False
    return True


def is_listed(type_: str) -> bool:
    """Say whether resources of a type have a list of identifiers, by which they are found."""
    number = elements()[type_].get(IDENTIFIER)
    return number is not None and number.many


def check_holder(compiler: Compiler, scope: Scope, type_: str, holder: str) -> None:
    """Note an element that is to say whose a resource is and refers to no patient, or that is wanted and not named."""
    known = elements()[type_]
    of_patients = [name for name, one in known.items() if _of_patient(one.type_, one.targets)]
    usual = [name for name in HOLDERS if name in of_patients]
    at = scope.at("patient")
    if "." in holder:
        _check_part(compiler, at, type_, holder)
        return
    if not holder and usual:
        compiler.problem(at, "no line 'patient'", f"say which element refers to the patient: patient: {usual[0]}")
    elif holder and compiler.has(type_, holder, at) and holder not in of_patients:
        expected = (
            nearest(holder, of_patients, page_of(type_))
            if of_patients
            else "leave the line out: it belongs to no patient"
        )
        compiler.problem(at, f"{type_}.{holder} refers to no patient", expected)


def _check_part(compiler: Compiler, at: Scope, type_: str, holder: str) -> None:
    """Note a part by which a resource is said to be a patient's (`participant.actor`) and which refers to none."""
    root, _, part = holder.partition(".")
    if not compiler.has(type_, root, at):
        return
    holds = elements()[type_][root].type_
    if compiler.has(holds, part, at) and not _of_patient(
        elements()[holds][part].type_, elements()[holds][part].targets
    ):
        compiler.problem(at, f"{type_}.{holder} refers to no patient", "name the part that does: participant.actor")


def written(holder: str) -> set[str]:
    """Return the element that says whose a resource is, as delivery writes it; a part is written by the elements."""
    return {holder} - {""} if "." not in holder else set()


def check_required(compiler: Compiler, scope: Scope, type_: str, given: Collection[str]) -> None:
    """Note what a type requires and a file nowhere fills; `given` are the elements and parts that it fills.

    Whose it is, is told apart.
    """
    roots = {name.partition(".")[0].removeprefix("_") for name in given}
    for name, one in elements()[type_].items():
        if one.required and name not in roots and not (name in HOLDERS and _of_patient(one.type_, one.targets)):
            expected = f"map it, or give a new one a value: new: {{{name}: ...}}"
            compiler.problem(scope, f"no {name!r}, which {type_} requires", expected)
    for stem in required_choices(type_):
        names = sorted(choices(type_).get(stem, ()))
        if not roots & {*names, stem + CHOICE}:
            compiler.problem(
                scope,
                f"no '{stem}{CHOICE}', which {type_} requires",
                f"map one of {folded(names, where=page_of(type_))}",
            )


def filled(authored: Any) -> set[str]:
    """Return the elements that a section fills, those of a choice each by itself."""
    found: set[str] = set()
    for name, value in authored.items() if isinstance(authored, Mapping) else ():
        if value is None:
            continue
        found.add(name)
        entries = value if isinstance(value, list) else [value]
        if name.endswith(CHOICE):
            found |= {key for entry in entries if isinstance(entry, dict) for key in entry}
    return found


def _of_patient(type_: str, targets: frozenset[str]) -> bool:
    return type_ == REFERENCE and (not targets or PATIENT in targets)
