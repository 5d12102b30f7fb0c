"""Whether documents keep HL7's schema of CDA and the Schematron of C-CDA R2.1; neither is a part of this project.

    python -m tests.interchange.ccda.check --schemas FOLDER --schematron FOLDER [FILE ...] [--database FILE ...]

`--schemas` is a copy of github.com/HL7/CDA-core-2.0, `--schematron` one of github.com/HL7/CDA-ccda-2.1 (each, or any
folder with its files: CDA_SDTC.xsd beside its imports, one *.sch and its voc.xml). `--database` is one of the service,
such as tests leave behind (pytest --basetemp): each live patient of each tenant is exported and checked. Without
both, the charts of `charts.py` are.
"""

import argparse
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from lxml import etree, isoschematron

from engine.clock import now
from engine.interchange.clinical.ccda.export import kept_chart
from engine.interchange.kernel.exact import read_json
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.sqlite import connect
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.interchange.ccda.charts import CHARTS, written

SCHEMA = "CDA_SDTC.xsd"
VOCABULARY = "document('voc.xml')"
# How the Schematron says where: an element by its name, without regard to prefixes.
NAMED = re.compile(r"\*\[local-name\(\)='(\w+)'[^]]*\]")
FAILED = "{http://purl.oclc.org/dsdl/svrl}failed-assert"


@dataclass(frozen=True)
class Rules:
    """The schema and the errors of the Schematron, ready to be asked."""

    schema: etree.XMLSchema
    schematron: isoschematron.Schematron

    @classmethod
    def read(cls, schemas: Path, schematron: Path) -> "Rules":
        """Find and read both; ValueError that says what is missing in which folder."""
        rules = one(schematron, "*.sch")
        vocabulary = one(schematron, "voc.xml").resolve().as_uri()
        # Its XPath is of level 1.0; only the address of its vocabulary has to be told, as a tree has none.
        text = rules.read_text(encoding="utf-8").replace(VOCABULARY, f"document('{vocabulary}')")
        return cls(
            etree.XMLSchema(etree.parse(str(one(schemas, SCHEMA)))),
            isoschematron.Schematron(
                etree.fromstring(text.encode()), phase="errors", store_report=True, validate_schema=False
            ),
        )

    def faults(self, body: bytes) -> Iterator[str]:
        """Yield what is wrong with a document: of the schema by line, of the Schematron by rule and place."""
        document = etree.fromstring(body, etree.XMLParser(huge_tree=True)).getroottree()
        if not self.schema.validate(document):
            for entry in self.schema.error_log:
                yield f"schema, line {entry.line}: {entry.message}"
        self.schematron.validate(document)
        for failed in self.schematron.validation_report.getroot().iter(FAILED):
            yield f"schematron: {' '.join(''.join(failed.itertext()).split())} at {place(failed.get('location'))}"


def one(folder: Path, pattern: str) -> Path:
    """Return the one file of a name below a folder."""
    found = sorted(folder.rglob(pattern))
    if not found:
        raise ValueError(f"{folder} has no {pattern}: give a copy of the repository")
    return found[0]


def place(location: str) -> str:
    """Return a place as people read it: `/ClinicalDocument/component[1]/…`."""
    return NAMED.sub(r"\1", location)


def made() -> Iterator[tuple[str, bytes]]:
    """Yield the documents of all charts."""
    for name, chart in CHARTS.items():
        yield name, written(chart())


def exported(database: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the documents of all live patients in a database of the service."""
    connection = connect(database, reading=True)
    tenants = [name for (name,) in connection.execute("SELECT name FROM tenant").fetchall()]
    connection.close()
    store = Store(database, tenants, now, INDEXERS, alone=False)
    try:
        for tenant in tenants:
            for patient in store.read(tenant, living):
                bodies = [read_json(one) for one in store.read(tenant, partial(kept_chart, patient_id=patient))]
                yield f"{database}: {tenant} Patient/{patient}", written(bodies)
    finally:
        store.close()


def living(transaction: Transaction) -> list[str]:
    """Return the ids of a tenant's live patients."""
    statement = "SELECT id FROM resource WHERE tenant=? AND type='Patient' AND survivor IS NULL"
    return [found for (found,) in transaction.connection.execute(statement, (transaction.tenant,)).fetchall()]


def main() -> int:
    """Check files, or charts, and say how many faults each has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, required=True)
    parser.add_argument("--schematron", type=Path, required=True)
    parser.add_argument("--database", nargs="+", type=Path, default=[], dest="databases")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    try:
        rules = Rules.read(options.schemas, options.schematron)
    except ValueError as error:
        parser.error(str(error))
    files = ((str(file), file.read_bytes()) for file in options.files)
    kept = (one for database in options.databases for one in exported(database))
    documents = chain(files, kept) if options.files or options.databases else made()
    count = faulty = 0
    for name, body in documents:
        start = time.perf_counter()
        found = list(rules.faults(body))
        count, faulty = count + 1, faulty + bool(found)
        sys.stdout.write(f"{name}: {len(body)} bytes, {len(found)} faults, {time.perf_counter() - start:.1f} s\n")
        for fault in found:
            sys.stdout.write(f"    {fault}\n")
    sys.stdout.write(f"{count} documents, {faulty} with faults\n")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
