"""FHIR's rules for a whole resource file: a type with identifiers, its patient, and its required elements."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from engine.config.model import folded
from engine.fhir.r4 import choices, required_choices
from engine.mapping.files.reference import REFERENCE, RESOURCES, elements, nearest, page_of, resource_types
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler

PATIENT: Final = "Patient"
IDENTIFIER: Final = "identifier"
# Elements that refer to the patient: if a type has one of these, its file must name it.
HOLDERS: Final = ("patient", "subject", "beneficiary", "for")
CHOICE: Final = "[x]"


def known_type(compiler: Compiler, scope: Scope, type_: str) -> bool:
    """True if FHIR R4 has a resource type; note if it has not, or if its resources have no identifiers."""
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
    """True if resources of a type have a list of identifiers, by which they are found."""
    number = elements()[type_].get(IDENTIFIER)
    return number is not None and number.many


def check_holder(compiler: Compiler, scope: Scope, type_: str, holder: str) -> None:
    """Note a holder element that does not refer to a patient, or a missing one."""
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
    """Note a holder within a part (`participant.actor`) that does not refer to a patient."""
    root, _, part = holder.partition(".")
    if not compiler.has(type_, root, at):
        return
    holds = elements()[type_][root].type_
    if compiler.has(holds, part, at) and not _of_patient(
        elements()[holds][part].type_, elements()[holds][part].targets
    ):
        compiler.problem(at, f"{type_}.{holder} refers to no patient", "name the part that does: participant.actor")


def written(holder: str) -> set[str]:
    """Return the holder element that delivery writes; a holder within a part is one of the mapped elements."""
    return {holder} - {""} if "." not in holder else set()


def check_required(compiler: Compiler, scope: Scope, type_: str, given: Collection[str]) -> None:
    """Note required elements that a file does not fill; `given` are the elements and parts that it fills.

    `check_holder` reports the holder.
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
    """Return the elements that a section fills, those of a choice individually."""
    names: set[str] = set()
    for name, value in authored.items() if isinstance(authored, Mapping) else ():
        if value is None:
            continue
        names.add(name)
        entries = value if isinstance(value, list) else [value]
        if name.endswith(CHOICE):
            names |= {key for entry in entries if isinstance(entry, dict) for key in entry}
    return names


def _of_patient(type_: str, targets: frozenset[str]) -> bool:
    return type_ == REFERENCE and (not targets or PATIENT in targets)
