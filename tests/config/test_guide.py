"""The guides in channels/README.md: a first channel, and a hospital end to end, from an empty folder, as they stand."""

import shutil
from pathlib import Path

import pytest

from engine.config.settings import shipped
from tests.guides import at_free_ports, run, section

pytestmark = pytest.mark.text

needed = pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("curl")), reason="needs openssl and curl, as the guide's readers do"
)


@needed
def test_a_first_channel(tmp_path: Path) -> None:
    """From an empty folder to a TLS feed with two senders, by `channels init`."""
    guide = section(shipped("channels") / "README.md", "A first channel")
    run(at_free_ports(guide, 2575, 8080, 8081), tmp_path, least=3)


@needed
def test_your_hospital_end_to_end(tmp_path: Path) -> None:
    """Service, secret, certificate and two feeds: the same patient comes in by both, over TLS and in the clear."""
    guide = section(shipped("channels") / "README.md", "Your hospital, end to end")
    run(at_free_ports(guide, 2575, 2576, 8080, 8081), tmp_path)
