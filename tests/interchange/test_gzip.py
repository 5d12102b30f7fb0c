"""gzip: large answers compressed for who takes it, compressed bodies taken within the limit, bombs refused."""

import gzip
import json
import zlib
from pathlib import Path

import httpx
import pytest

from engine.interchange.web.http.wire import BombError, expand, takes_gzip
from tests.interchange.kit import Running, issue, patient, running

JSON = {"content-type": "application/fhir+json", "prefer": "create-always"}
GZIPPED = {**JSON, "content-encoding": "gzip"}
NOTE = [{"url": "http://x.example", "valueString": "n" * 5000}]


def raw(service: Running, path: str, accept: str, method: str = "GET") -> tuple[httpx.Response, bytes]:
    """Return an answer and its body as it came over the wire."""
    headers = {"authorization": f"Bearer {service.token('physician')}", "accept-encoding": accept}
    with service.http.stream(method, service.url + path, headers=headers) as answer:
        return answer, b"".join(answer.iter_raw())


def test_large_answers(service: Running, base: str) -> None:
    """N-312: more than 1 kB comes compressed to who takes it, the same resource; HEAD tells the same length."""
    path = f"{base}/Patient/{service.create(base, extension=NOTE)['id']}"
    plain, body = raw(service, path, "identity")
    packed, small = raw(service, path, "gzip, deflate")
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], int(packed.headers["content-length"])) == ("gzip", len(small))
    assert len(small) < len(body) / 5
    assert gzip.decompress(small) == body
    assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"
    assert raw(service, path, "gzip", "HEAD")[0].headers["content-length"] == str(len(small))


def test_small_answers(service: Running, base: str) -> None:
    """N-312: what is 1 kB or less is sent as it is, and so is nothing at all."""
    path = f"{base}/Patient/{service.create(base)['id']}"
    assert "content-encoding" not in raw(service, path, "gzip")[0].headers
    spared = service.ask("GET", path, headers={"if-none-match": 'W/"1"'})
    assert (spared.status_code, "content-encoding" in spared.headers) == (304, False)


def test_a_very_large_answer(service: Running) -> None:
    """N-312: what is compressed in a thread is whole, too."""
    made = service.create(extension=[{"url": "http://x.example", "valueString": "abc" * 200_000}])
    answer, small = raw(service, f"/fhir/R4/Patient/{made['id']}", "gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(small)) == made


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("gzip", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("*", True),
        ("*;q=0.1, br", True),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
    ],
)
def test_who_takes_it(header: str, taken: bool) -> None:
    """N-312: RFC 9110 section 12.5.3: the name, a weight, and the star for all that is not named."""
    assert takes_gzip(header) is taken


@pytest.mark.parametrize("name", ["gzip", "GZIP", "x-gzip"])
def test_compressed_bodies(service: Running, base: str, name: str) -> None:
    """N-313: a body compressed by gzip is written as it would be plain."""
    content = gzip.compress(json.dumps(patient(extension=NOTE)).encode())
    made = service.ask("POST", f"{base}/Patient", content=content, headers={**JSON, "content-encoding": name})
    assert made.status_code == 201, made.text
    assert service.ask("GET", f"{base}/Patient/{made.json()['id']}").json()["extension"] == NOTE


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(json.dumps(patient()).encode(), id="plain"),
        pytest.param(gzip.compress(b"{}")[:-4], id="cut short"),
        pytest.param(gzip.compress(b"{}") + b"x", id="something behind it"),
        pytest.param(gzip.compress(b"{}")[:-8] + b"\0" * 8, id="wrong checksum"),
        pytest.param(zlib.compress(b"{}"), id="zlib"),
    ],
)
def test_what_is_no_gzip(service: Running, base: str, content: bytes) -> None:
    """N-313: a body that is not what it says is 400."""
    issue(service.ask("POST", f"{base}/Patient", content=content, headers=GZIPPED), 400, "structure")


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    """N-313: a small body that expands beyond the limit is 413, and so is a compressed one that is itself too large."""
    bomb = gzip.compress(b" " * 50_000_000)
    with running(tmp_path, max_body_bytes=100_000) as service:
        assert len(bomb) < 100_000
        issue(service.ask("POST", "/fhir/R4/Patient", content=bomb, headers=GZIPPED), 413, "too-long")
        long = gzip.compress(b"{}") + b"\0" * 100_001
        issue(service.ask("POST", "/fhir/R4/Patient", content=long, headers=GZIPPED), 413, "too-long")
        content = gzip.compress(json.dumps(patient()).encode())
        assert service.ask("POST", "/fhir/R4/Patient", content=content, headers=GZIPPED).status_code == 201


def test_a_bomb_is_not_expanded_beyond_the_limit() -> None:
    """N-313: no more is made of a body than the limit, so that what is no gzip behind it is not met."""
    bomb = gzip.compress(b" " * 5_000_000)
    torn = bomb[:-1000] + b"\xff" * 1000
    with pytest.raises(BombError):
        expand(torn, 1_000_000)
    with pytest.raises(ValueError, match="no gzip"):
        expand(torn, 5_000_000)
