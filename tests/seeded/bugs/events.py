"""Bugs in subscriptions, webhooks, alerts and jobs."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Add, Drop, Swap, Value

BUGS: Final = (
    Bug(
        "a subscriber to a patient's number hears nothing after the patient is merged away",
        "engine.interchange.events.subscriptions.matching:SubscriptionMatcher.on_write",
        Drop("transaction.inherited_identifiers(...)"),
        ("interchange/subscriptions/test_matching.py",),
    ),
    Bug(
        "any user of the tenant reads what was fetched for another patient's app",
        "engine.interchange.jobs.handle:_demand",
        Drop("restrict_patient_id(...)"),
        ("interchange/test_job_rights.py",),
    ),
    Bug(
        "the result of a cancelled job is kept",
        "engine.interchange.jobs.runner:Runner._keep_end",
        Drop("return False"),
        (
            "interchange/test_jobs.py",
            "interchange/test_job_model.py",
        ),
    ),
    Bug(
        "an accepted job is forgotten when the service is killed",
        "engine.interchange.jobs.queue_worker:QueueWorker._look",
        Drop("self._recover()"),
        (
            "interchange/test_job_kills.py",
            "interchange/test_job_model.py",
        ),
    ),
    Bug(
        "a webhook answered by 201 counts as delivered",
        "engine.interchange.events.webhooks.settling:TAKEN",
        Add("201"),
        ("interchange/webhooks/test_delivery.py",),
    ),
    Bug(
        "webhooks go to private addresses that nobody allowed",
        "engine.interchange.events.webhooks.servers:permits",
        Swap("is_global", "version"),
        ("interchange/webhooks/test_address.py",),
    ),
    Bug(
        "a webhook goes to the private one of a host's addresses",
        "engine.interchange.events.webhooks.servers:resolve",
        Swap("allowed", "addresses", of="allowed[0]"),
        ("interchange/webhooks/test_address.py",),
    ),
    Bug(
        "a webhook goes to this machine by an IPv6 address that embeds an IPv4 one",
        "engine.interchange.events.webhooks.servers:permits",
        Drop("isinstance(...) and ip not in UNICAST"),
        ("interchange/webhooks/test_address.py",),
    ),
    Bug(
        "an event is sent although its subscription has ended",
        "engine.interchange.events.subscriptions.matching:SubscriptionMatcher.on_write",
        Value("one.end_ms <= at_ms", "False"),
        (
            "interchange/subscriptions/test_matching.py",
            "interchange/subscriptions/test_subscription.py",
        ),
    ),
    Bug(
        "the end of a job is announced to nobody",
        "engine.interchange.jobs.runner:Runner._keep_end",
        Drop("announce_end(...)"),
        ("interchange/webhooks/test_ends_of_jobs.py",),
    ),
    Bug(
        "a repeated message is announced twice",
        "engine.interchange.events.messages.operation:_take",
        Value("is_known(...)", "False"),
        ("interchange/webhooks/test_messages.py",),
    ),
    Bug(
        "a subscriber reads of another patient's visit",
        "engine.interchange.events.alerts.event_patient:is_of",
        Value("bool(...)", "True"),
        (
            "interchange/webhooks/test_messages.py",
            "interchange/webhooks/test_alerts.py",
        ),
    ),
    Bug(
        "messages about a patient go to a member who has left the roster",
        "engine.interchange.events.alerts.event_patient:_present",
        Drop("member.get('inactive', False)"),
        ("interchange/webhooks/test_messages.py",),
    ),
    Bug(
        "queries on unlicensed networks are announced",
        "engine.interchange.events.alerts.network:queried",
        Drop("licensed", of="settings.leading_indicator and licensed and ..."),
        ("interchange/webhooks/test_alerts.py",),
    ),
    Bug(
        "a subscription is never tried again after its receiver has failed",
        "engine.interchange.events.webhooks.sender:TROUBLED_LANES",
        Swap("32", "0"),
        ("interchange/webhooks/test_delivery.py",),
    ),
)
