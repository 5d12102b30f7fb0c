"""The keys of a destination that are in force: value, who set it, and what would be otherwise; no secret."""

from typing import Any

import pytest

from engine.config.destination import Destination
from engine.config.in_force import KeyInForce, keys_in_force

HERE = {"name": "fhir", "base_url": "https://fhir.example"}
KEYS = {"type": "aws_sigv4", "region": "us-east-1", "access_key_id": {"env": "A"}, "secret_access_key": {"file": "/k"}}


def shown(**settings: Any) -> dict[str, tuple[str, str, str]]:
    """Return the keys of a destination, those by default left out."""
    found = keys_in_force(Destination(**HERE | settings))
    return {one.key: one[1:] for one in found if one.origin != "default"}


def test_what_the_profile_sets_and_what_the_file_sets_otherwise() -> None:
    """A default of the profile, one that the file takes back, and one that nobody changed."""
    assert shown(profile="azure") == {
        "profile": ("azure", "file", "generic"),
        "base_url": ("https://fhir.example", "file", ""),
        "create": ("client-id", "profile", "conditional"),
        "behaviour.bundle_entries": ("500", "profile", "200"),
    }
    own = shown(
        profile="azure", create="conditional", behaviour={"bundle_entries": 100}, rate={"requests_per_second": 5}
    )
    assert own["create"] == ("conditional", "file", "client-id")
    assert own["behaviour.bundle_entries"] == ("100", "file", "500")
    assert own["rate.requests_per_second"] == ("5", "file", "")


def test_lists_and_blocks_are_as_yaml_has_them() -> None:
    """Of the profiles of Google and HealthLake."""
    google, healthlake = shown(profile="google"), shown(profile="healthlake")
    assert google["behaviour.lock_refusal.statuses"] == ("[429]", "profile", "[]")
    level = "x-amz-fhir-history-consistency-level: strong"
    assert healthlake["behaviour.read_headers"] == (level, "profile", "")


def test_a_secret_is_only_set() -> None:
    """Neither its text nor where it is; so are headers that refer to one, or whose name says that they hold one."""
    headers = {"X-Tenant": "acme", "X-Api-Key": "hush-1", "X-Other": {"env": "HUSH_2"}}
    found = shown(
        auth=KEYS, headers=headers, proxy="http://p.example:1", proxy_user="u", proxy_password={"env": "HUSH_3"}
    )
    assert found["auth.secret_access_key"] == found["auth.access_key_id"] == ("set", "file", "")
    assert found["headers"] == ("X-Tenant: acme, X-Api-Key: set, X-Other: set", "file", "")
    assert found["proxy_password"] == ("set", "file", "")
    assert "hush" not in str(found).lower()


@pytest.mark.parametrize(
    ("auth", "keys"), [({"type": "none"}, ["auth.type"]), ({"type": "google_metadata"}, ["auth.type", "auth.scope"])]
)
def test_of_the_sign_in_only_what_its_type_uses(auth: dict[str, Any], keys: list[str]) -> None:
    """The others are not in force."""
    found = [one.key for one in keys_in_force(Destination(**HERE, auth=auth)) if one.key.startswith("auth.")]
    assert found == keys


def test_what_nobody_set_is_the_default() -> None:
    """Each key stands once."""
    found = keys_in_force(Destination(**HERE))
    assert KeyInForce("timeout_seconds", "30", "default", "30") in found
    assert KeyInForce("retry.max_seconds", "60", "default", "60") in found
    assert len({one.key for one in found}) == len(found)
