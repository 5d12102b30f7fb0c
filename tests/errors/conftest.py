"""Every error text that the files of an author can meet, provoked once for all tests of this folder."""

from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import pytest

from engine.mapping.files import document
from tests.errors.configurations import told_of_configurations
from tests.errors.mappings import told_of_mappings
from tests.errors.outgoing import told_of_outgoing
from tests.errors.shipped import write_shipped
from tests.errors.told import Reached, Told


class Everything(NamedTuple):
    """What authors were told by all the broken files, and what of the code told it."""

    told: tuple[Told, ...]
    reached: Reached


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    """Read all the broken files, each beside the same small mapping, whose files are read once."""
    folder = tmp_path_factory.mktemp("errors")
    shipped, scan = write_shipped(folder / "shipped"), document.scan
    once, reached = cache(scan), Reached()
    with (
        patch.object(document, "scan", lambda path: (once if path.is_relative_to(shipped) else scan)(path)),
        reached.watched(),
    ):
        mappings = list(told_of_mappings(folder / "mappings", shipped))
        outgoing = list(told_of_outgoing(folder / "outgoing"))
        configurations = list(told_of_configurations(folder / "configurations", shipped))
    return Everything((*mappings, *outgoing, *configurations), reached)
