"""The planted bugs, by room: what each does to a patient or a hospital, its function, its change, and its tests."""

from typing import Final

from tests.seeded.bugs import access, clinical, deliver, events, journal, mapping, ops, orders, pipeline, service

BUGS: Final = (
    *journal.BUGS,
    *deliver.BUGS,
    *pipeline.BUGS,
    *mapping.BUGS,
    *ops.BUGS,
    *access.BUGS,
    *service.BUGS,
    *clinical.BUGS,
    *orders.BUGS,
    *events.BUGS,
)
