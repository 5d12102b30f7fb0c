"""AWS Signature Version 4 against the vectors that AWS publishes."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from engine.security.sigv4 import AwsCredentials, AwsSigner

NOW: Final = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
ID: Final = "AKIDEXAMPLE"
SECRET: Final = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
# github.com/awslabs/aws-c-auth, tests/aws-signing-test-suite/v4: all with "normalize", which is how HealthLake signs.
# Name, method, target, headers but Host, body, names signed, signature.
VECTORS: Final[tuple[tuple[Any, ...], ...]] = (
    (
        "get-header-key-duplicate",
        "GET",
        "/",
        (("My-Header1", "value2"), ("My-Header1", "value2"), ("My-Header1", "value1")),
        "",
        "host;my-header1;x-amz-date",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    (
        "get-header-value-multiline",
        "GET",
        "/",
        (("My-Header1", "value1 value2 value3"),),
        "",
        "host;my-header1;x-amz-date",
        "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd",
    ),
    (
        "get-header-value-order",
        "GET",
        "/",
        (("My-Header1", "value4"), ("My-Header1", "value1"), ("My-Header1", "value3"), ("My-Header1", "value2")),
        "",
        "host;my-header1;x-amz-date",
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    (
        "get-header-value-trim",
        "GET",
        "/",
        (("My-Header1", " value1"), ("My-Header2", ' "a   b   c"')),
        "",
        "host;my-header1;my-header2;x-amz-date",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    (
        "get-relative-normalized",
        "GET",
        "/example/..",
        (),
        "",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-relative-relative-normalized",
        "GET",
        "/example1/example2/../..",
        (),
        "",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-slash-dot-slash-normalized",
        "GET",
        "/./",
        (),
        "",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-slash-normalized",
        "GET",
        "//",
        (),
        "",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-slash-pointless-dot-normalized",
        "GET",
        "/./example",
        (),
        "",
        "host;x-amz-date",
        "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
    ),
    (
        "get-slashes-normalized",
        "GET",
        "//example//",
        (),
        "",
        "host;x-amz-date",
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    (
        "get-space-normalized",
        "GET",
        "/example space/",
        (),
        "",
        "host;x-amz-date",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    (
        "get-unreserved",
        "GET",
        "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        (),
        "",
        "host;x-amz-date",
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    (
        "get-utf8",
        "GET",
        "/ሴ",
        (),
        "",
        "host;x-amz-date",
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    (
        "get-vanilla-empty-query-key",
        "GET",
        "/?Param1=value1",
        (),
        "",
        "host;x-amz-date",
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    (
        "get-vanilla-query-order-encoded",
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        (),
        "",
        "host;x-amz-date",
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    (
        "get-vanilla-query-order-key-case",
        "GET",
        "/?Param2=value2&Param1=value1",
        (),
        "",
        "host;x-amz-date",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "get-vanilla-query-unreserved",
        "GET",
        "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        (),
        "",
        "host;x-amz-date",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    (
        "get-vanilla-query",
        "GET",
        "/",
        (),
        "",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-vanilla-utf8-query",
        "GET",
        "/?ሴ=bar",
        (),
        "",
        "host;x-amz-date",
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    (
        "get-vanilla",
        "GET",
        "/",
        (),
        "",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "post-header-key-case",
        "POST",
        "/",
        (),
        "",
        "host;x-amz-date",
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    (
        "post-header-key-sort",
        "POST",
        "/",
        (("My-Header1", "value1"),),
        "",
        "host;my-header1;x-amz-date",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    (
        "post-header-value-case",
        "POST",
        "/",
        (("My-Header1", "VALUE1"),),
        "",
        "host;my-header1;x-amz-date",
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
    ),
    (
        "post-vanilla-empty-query-value",
        "POST",
        "/?Param1=value1",
        (),
        "",
        "host;x-amz-date",
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    (
        "post-vanilla-query",
        "POST",
        "/?Param1=value1",
        (),
        "",
        "host;x-amz-date",
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    (
        "post-vanilla",
        "POST",
        "/",
        (),
        "",
        "host;x-amz-date",
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    (
        "post-x-www-form-urlencoded-parameters",
        "POST",
        "/",
        (
            ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("Content-Length", "13"),
            ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"),
        ),
        "Param1=value1",
        "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
        "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422",
    ),
    (
        "post-x-www-form-urlencoded",
        "POST",
        "/",
        (
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", "13"),
            ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"),
        ),
        "Param1=value1",
        "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
        "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    ),
)
TOKEN: Final = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"


def authorization(names: str, signature: str) -> str:
    """Return the header of the suite's credentials, region and service."""
    scope = "20150830/us-east-1/service/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={ID}/{scope}, SignedHeaders={names}, Signature={signature}"


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "names", "signature"), [row[1:] for row in VECTORS],
    ids=[row[0] for row in VECTORS],
)  # fmt: skip
def test_a_published_vector(
    method: str, target: str, headers: tuple[tuple[str, str], ...], body: str, names: str, signature: str
) -> None:
    """The signature is the published one."""
    signer = AwsSigner("us-east-1", "service")
    url = f"https://example.amazonaws.com{target}"
    added = signer.sign(AwsCredentials(ID, SECRET), method, url, headers, body.encode(), NOW)
    assert added == (("X-Amz-Date", "20150830T123600Z"), ("Authorization", authorization(names, signature)))


def test_a_session_token_is_sent_and_signed() -> None:
    """The vector get-vanilla-with-session-token of the same suite."""
    signer = AwsSigner("us-east-1", "service")
    added = dict(signer.sign(AwsCredentials(ID, SECRET, TOKEN), "GET", "https://example.amazonaws.com/", (), b"", NOW))
    assert added["X-Amz-Security-Token"] == TOKEN
    signature = "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"
    assert added["Authorization"] == authorization("host;x-amz-date;x-amz-security-token", signature)


def test_one_signer_follows_key_and_day() -> None:
    """The key of a day is made anew for another secret and another day."""
    signer = AwsSigner("us-east-1", "service")
    url = "https://example.amazonaws.com/"
    first = signer.sign(AwsCredentials(ID, SECRET), "GET", url, (), b"", NOW)
    other = AwsCredentials(ID, "another")
    assert signer.sign(other, "GET", url, (), b"", NOW) == AwsSigner("us-east-1", "service").sign(
        other, "GET", url, (), b"", NOW
    )
    tomorrow = NOW.replace(day=31)
    fresh = AwsSigner("us-east-1", "service").sign(AwsCredentials(ID, SECRET), "GET", url, (), b"", tomorrow)
    assert signer.sign(AwsCredentials(ID, SECRET), "GET", url, (), b"", tomorrow) == fresh
    assert signer.sign(AwsCredentials(ID, SECRET), "GET", url, (), b"", NOW) == first


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("https://h.example:443/r4/Patient", "https://h.example/r4/Patient"),
        ("http://H.example:80/r4/Patient", "http://h.example/r4/Patient"),
        ("https://h.example/r4/Patient?a:b=c|d", "https://h.example/r4/Patient?a%3Ab=c%7cd"),
    ],
)
def test_what_is_sent_alike_is_signed_alike(one: str, same: str) -> None:
    """A port that the scheme has, letters of a host, and quoting of a query make no difference."""
    signer, who = AwsSigner("us-east-1", "healthlake"), AwsCredentials(ID, SECRET)
    assert signer.sign(who, "GET", one, (), b"", NOW) == signer.sign(who, "GET", same, (), b"", NOW)


def test_what_a_proxy_may_change_is_not_signed() -> None:
    """User-Agent and its like are left out; what HealthLake reads is signed."""
    headers = (("User-Agent", "adt-engine"), ("Content-Type", "application/fhir+json"), ("If-Match", 'W/"3"'))
    added = dict(
        AwsSigner("us-east-1", "healthlake").sign(
            AwsCredentials(ID, SECRET), "PUT", "https://h.example/r4/Patient/1", headers, b"{}", NOW
        )
    )
    assert "SignedHeaders=content-type;host;if-match;x-amz-date," in added["Authorization"]


def test_an_access_key_is_not_shown() -> None:
    """Neither half stands in the text of the value."""
    assert SECRET not in repr(AwsCredentials(ID, SECRET, TOKEN))
    assert TOKEN not in repr(AwsCredentials(ID, SECRET, TOKEN))
