"""A service that may send webhooks to this machine, and trusts the tests' own authority."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from engine.config.service import Tenant, Webhooks
from tests.interchange.kit import Running, running
from tests.interchange.webhooks.receiver import Receiver, receiving, server_context, trusted

HERE = Tenant(webhook_allow=("127.0.0.0/8",), active_subscription_limit=1000)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The authority that the services of the tests trust."""
    return trustme.CA()


@pytest.fixture
def hook(authority: trustme.CA) -> Iterator[Receiver]:
    """A receiver with a good certificate, which takes everything until it is told otherwise."""
    with receiving(server_context(authority.issue_cert("127.0.0.1"))) as found:
        yield found


@pytest.fixture
def sending(tmp_path: Path, authority: trustme.CA) -> Iterator[Running]:
    """An empty service that sends webhooks to this machine."""
    tenants = {"riverbend": HERE, "lakeside": HERE, "lax": Tenant(scope_enforcement="off")}
    with running(tmp_path, tenants=tenants, webhooks=Webhooks(**trusted(tmp_path, authority))) as found:
        yield found
