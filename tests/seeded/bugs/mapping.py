"""Bugs in HL7 v2, the mapping and FHIR: what a message says, and of whom."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Code, Drop, Swap, Unwrap, Value

BUGS: Final = (
    Bug(
        "an update does not wait for the patient that its MRG names",
        "engine.mapping.subject.identify:SubjectReader._patient",
        Code("not rule.moves", "rule.thin and (not rule.moves)"),
        ("mapping/subject/test_identify.py",),
    ),
    Bug(
        "a room of the patient is lost when the answer to a transfer is lost",
        "engine.fhir.places:traced",
        Code("tried and here not in mine[trail.here]", "not tried"),
        ("fhir/test_places.py",),
    ),
    Bug(
        "a file without `extends` replaces the shipped one without a warning",
        "engine.mapping.files.overlay:unsaid",
        Value("EXTENDS in value or not ships", "True"),
        ("mapping/language/test_errors.py",),
    ),
    Bug(
        "a number is written in another form than it is searched",
        "engine.mapping.subject.identity_checks:_is_as_it_came",
        Value("stage.name == UNCHANGED", "True"),
        ("mapping/subject/test_identity_values.py",),
    ),
    Bug(
        "a number is written under one of several systems that are searched",
        "engine.mapping.subject.identity_checks:_is_searched",
        Code("named == {constant}", "constant in named"),
        ("mapping/subject/test_identity_systems.py",),
    ),
    Bug(
        "a filter by `PV1-2 != I` takes every message without a PV1",
        "engine.mapping.language.compared:CompiledTerm.write",
        Value("self.unlike", "False", of="self.values | EMPTY if self.unlike else self.values"),
        ("mapping/language/test_comparison.py",),
    ),
    Bug(
        "`not starts-with` is true for a field that is missing",
        "engine.mapping.language.comparison:other_than",
        Drop("isinstance(...)"),
        ("mapping/language/test_comparison.py",),
    ),
    Bug(
        "a date to the month counts as earlier than each of its days",
        "engine.mapping.language.comparison:_dates.holds",
        Code("compare(digits[:least], day[:least])", "compare(digits, day)"),
        ("mapping/language/test_comparison.py",),
    ),
    Bug(
        "a merge is made of numbers that MRG cannot carry",
        "engine.mapping.subject.identities:IdentityReader.pair",
        Swap("paired_side", "side"),
        ("mapping/subject/test_identity_fields.py",),
    ),
    Bug(
        "a patient gets the Z segment of another one",
        "engine.mapping.subject.identities:IdentityReader.side",
        Drop("alone or one.position >= pid.position"),
        ("mapping/subject/test_identity_fields.py",),
    ),
    Bug(
        "a number with a non-breaking space makes a second chart of the same patient",
        "engine.hl7.segment:plain_cells",
        Unwrap("' ' in text"),
        ("hl7/test_cells.py",),
    ),
    Bug(
        "a number with an invisible character makes a second chart of the same patient",
        "engine.hl7.legible:legible",
        Drop("_NO_ASCII.search(...)"),
        ("hl7/test_legible.py",),
    ),
    Bug(
        "a message with a Chinese sender name is answered under another message's control ID",
        "engine.hl7.header:_DOUBLE_BYTE_CODECS",
        Drop("{'big5', 'gb18030'}"),
        ("hl7/test_header.py",),
    ),
    Bug(
        "a number of zeros identifies a patient",
        "engine.mapping.language.identifier:Identifiers.placeholder",
        Drop("not bare.strip('0')"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "a dummy social security number joins thousands of charts",
        "engine.mapping.language.identifier:Identifiers.identity",
        Drop("type_ in self.rules.not_identity"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "an expired number still finds its chart",
        "engine.mapping.language.identifier:Identifiers.expired",
        Value("until < today[:len(...)]", "False"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "merges are made on a channel that does not allow them",
        "engine.mapping.subject.identify:SubjectReader._merge",
        Value("not self._setting.allow_merge", "False"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "a self-merge is accepted",
        "engine.mapping.subject.merge:judge",
        Code("found.source.identity == found.target.identity", "found.source is found.target"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "numbers of an unnamed authority are merged",
        "engine.mapping.subject.merge:judge",
        Drop("return Finding(ErrorCode.UNKNOWN_KEY, 'unknown-authority', unnamed, text)"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "an unlisted authority's numbers pass although the channel refuses them",
        "engine.mapping.subject.identities:IdentityReader._refusals",
        Value("not self._setting.refuse_unknown_authority", "True"),
        (
            "mapping/subject/test_identify.py",
            "mapping/authoring/test_shipped.py",
        ),
    ),
    Bug(
        "a laboratory's results received by STU3 are missing from a search by category on R4",
        "engine.fhir.versions.addresses:system_in_r4",
        Value("moved is not None", "False"),
        ("interchange/test_code_systems.py",),
    ),
    Bug(
        "a script in a narrative runs in the browser of the reader",
        "engine.fhir.narrative:_is_quiet",
        Drop("name.startswith(...)"),
        ("fhir/test_narrative.py",),
    ),
    Bug(
        "a name is read in another character set than declared, without a warning",
        "engine.hl7.message:parse",
        Value("codec", "''", of="message.read_as = codec"),
        ("hl7/test_charset.py",),
    ),
    Bug(
        "a city is cut at an ampersand without a warning",
        "engine.mapping.subject.unread:unread",
        Swap("not in", "in"),
        ("mapping/subject/test_unread.py",),
    ),
    Bug(
        "country and phone after a line break in an address are lost",
        "engine.hl7.lines:_cut_at_returns",
        Value("begins and (begins[1] in carried or is_own(...))", "True"),
        ("hl7/test_lines.py",),
    ),
    Bug(
        "the rest of a field after a carriage return is lost without a warning",
        "engine.hl7.message:Message._mend",
        Drop("self._none += at"),
        ("hl7/test_lines.py",),
    ),
)
