"""The demo's subscriber: it writes down what is a Patient, and refuses what is not."""

import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.ops.demo.webhook import CERTIFICATE, DemoWebhook

PATIENT = {
    "resourceType": "Patient",
    "id": "5f0c",
    "meta": {"versionId": "1"},
    "name": [{"family": "Quintero", "given": ["Marisol"]}],
    "gender": "female",
    "birthDate": "1984-02-29",
}


@pytest.mark.parametrize(
    ("body", "status", "line"),
    [
        pytest.param(PATIENT, 200, "Patient/5f0c new chart: Marisol Quintero female 1984-02-29", id="a new chart"),
        pytest.param(PATIENT | {"meta": {"versionId": "3"}}, 200, "Patient/5f0c changed, version 3: ", id="a change"),
        pytest.param({"resourceType": "Encounter", "id": "5f0c"}, 400, "", id="another type"),
        pytest.param([], 400, "", id="no resource"),
    ],
)
async def test_a_patient_is_written_down(tmp_path: Path, body: Any, status: int, line: str) -> None:
    """200 once the line is in the file, over TLS by the certificate that the service trusts; else 400 and no line."""
    webhook = DemoWebhook(tmp_path)
    endpoint = await webhook.start()
    try:
        context = ssl.create_default_context(cafile=str(tmp_path / CERTIFICATE))
        async with httpx.AsyncClient(verify=context) as client:
            assert (await client.post(endpoint, json=body)).status_code == status
    finally:
        await webhook.stop()
    assert line in webhook.log.read_text("utf-8")
    assert webhook.received == (status == 200)
