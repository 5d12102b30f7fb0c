"""The Provenance of all that a message wrote, compiled from a resource file with `target`.

FHIR gives a Provenance no identifier. Its logical id is the digest of the message's sender and the file's `key`, so
that a message that is sent again or replayed has the same id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from engine.fhir.plan import Attest, ElementChange, Identity, Needed, ResourceRecord
from engine.mapping.files.document import Document
from engine.mapping.files.reference import RESOURCES, ReferenceElement, listed, nearest, resource_types
from engine.mapping.language.node import Step
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.slice_writer import SliceWriter
from engine.mapping.resource.slices import Slices

TARGET: Final = "target"
FILE_KEYS: Final = frozenset({"resource", "extends", TARGET, "key", "needs", "elements"})
ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Attestation:
    """One compiled file with `target`; `system` is that of the ids of its resources."""

    type_: str
    target: str
    key: tuple[Step, ...]
    needs: frozenset[str]
    writers: tuple[SliceWriter, ...]
    system: str

    def attest(self, reading: MessageReading) -> list[Needed | Attest]:
        """Return the Provenance of a message, after the resources that it refers to.

        Nothing, and the warning `not-whole MSH`, if a part of its key is missing.
        """
        own = reading.apart()
        changes: list[ElementChange] = []
        for writer in self.writers:
            writer.add(own, changes)
        reading.warnings += own.warnings
        found = [step(None, reading) for step in self.key]
        key = [one if isinstance(one, str) else "" for one in found]
        if not any(key) or self.needs - {change.element for change in changes if change.items}:
            reading.place = "MSH"
            reading.warn("not-whole")
            return []
        text = "\x1f".join((self.system, reading.message.source, *key))
        mark = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).hexdigest()
        identity = Identity(self.system, mark)
        record = ResourceRecord(self.type_, self.type_.lower(), (identity,), (), tuple(changes))
        return [*own.referred.values(), Attest(record, mark, self.target)]


def compile_attestations(compiler: Compiler, documents: Mapping[str, Document], base: str) -> dict[str, Attestation]:
    """Compile every resource file that has a `target`, by type."""
    attestations = {
        name: _attestation(compiler, document, name, base)
        for name, document in documents.items()
        if TARGET in document.value
    }
    return {name: one for name, one in attestations.items() if one is not None}


def _attestation(compiler: Compiler, document: Document, type_: str, base: str) -> Attestation | None:
    value, scope = document.value, Scope(document)
    if type_ not in resource_types():
        compiler.problem(
            scope.at("resource"), f"unknown resource {type_!r}", nearest(type_, resource_types(), RESOURCES)
        )
        return None
    compiler.keys(value, FILE_KEYS, scope)
    target = str(value[TARGET])
    compiler.has(type_, target, scope.at(TARGET), many=True)
    needs = listed(value.get("needs"))
    for name in needs:
        compiler.has(type_, name, scope.at("needs"))
    text, names = ReferenceElement("string", many=False), listed(value.get("key"))
    steps = tuple(compiler.expression(one, scope.at("key", number), text).step for number, one in enumerate(names))
    if not steps:
        compiler.problem(scope.at("key"), "no key", "say what identifies the message, such as key: [MSH-10, MSH-7]")
    writers = Slices(compiler, document, type_).writers()
    return Attestation(type_, target, steps, frozenset(needs), writers, f"{base}{type_}")
