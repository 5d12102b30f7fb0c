"""Documents from bytes to bytes: a large one is written by a process of its own, so that others need not wait for it.

    python -m engine.interchange.clinical.ccda.apart < ORDER > DOCUMENT

A thread would do with the disk; but what writes XML keeps the interpreter for itself, and with it every other request.
"""

import gc
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import orjson

from engine.errors import ServiceError
from engine.interchange.clinical.ccda.document import DocumentChart, write_ccd
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.kernel.exact import read_resource, write_json

# Charts up to this size, some 300 resources, are written in less time than a process takes to start.
LARGE_BYTES: Final = 262_144
MODULE: Final = "engine.interchange.clinical.ccda.apart"


class DocumentFailedError(ServiceError):
    """The process that writes a document ended without one."""


def order_of(bodies: Sequence[bytes], *, document_id: str, at: datetime, zone: str, custodian: Custodian) -> bytes:
    """Return what `carry_out` takes: resources as FHIR JSON, the patient first, and what goes with them."""
    return write_json(
        {
            "document_id": document_id,
            "at": at.isoformat(),
            "zone": zone,
            "custodian": asdict(custodian),
            "chart": [orjson.Fragment(body) for body in bodies],
        }
    )


def carry_out(order: bytes) -> bytes:
    """Return the document of an order; DocumentFailedError for a process that fails. It blocks: call it in a thread."""
    if len(order) <= LARGE_BYTES:
        return written(order)
    done = subprocess.run(  # noqa: S603 - this very program
        [sys.executable, "-m", MODULE], input=order, capture_output=True, check=False, start_new_session=True
    )
    if done.returncode or not done.stdout:
        # What it said may show something of the chart.
        raise DocumentFailedError(f"the process that writes a document ended with {done.returncode}")
    return done.stdout


def written(order: bytes) -> bytes:
    """Return the document of an order."""
    asked = read_resource(order)
    patient, *resources = asked["chart"]
    return write_ccd(
        DocumentChart(patient, resources),
        document_id=asked["document_id"],
        at=datetime.fromisoformat(asked["at"]),
        zone=ZoneInfo(asked["zone"]),
        custodian=Custodian(**asked["custodian"]),
    )


def main() -> None:
    """Carry out the order on standard input."""
    gc.disable()  # it ends with the document, and what a chart is made of is no garbage until then
    sys.stdout.buffer.write(written(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
