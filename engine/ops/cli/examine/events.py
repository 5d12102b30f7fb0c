"""The FHIR servers whose events channels take: whether each answers, has a history, and takes Subscriptions."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from engine.config.channel import Channel
from engine.config.fhir_events import HISTORY, SUBSCRIPTION, WEBHOOK, FhirEvents
from engine.config.network import is_loopback
from engine.deliver.fhir_reader import FhirReader
from engine.errors import AdtEngineError, DeliveryError, DestinationError
from engine.ops.cli.examine.check import Check, CheckStatus
from engine.ops.cli.examine.destinations import GRAVEST, MENDS, Finding, own_certificate, refusal_of
from engine.ops.views.incident import cause_in_words
from engine.pipeline.configuration import Configuration
from engine.pipeline.engine import reader_of
from engine.pipeline.inbound.event_subscriptions import BY_TYPE, RESOURCE
from engine.pipeline.inbound.history import NOT_OFFERED


async def events(configuration: Configuration) -> list[Check]:
    """Ask each server whose events a channel takes; nothing is written there."""
    found: list[Check] = []
    for channel in configuration.channels.values():
        if channel.listen.fhir is not None:
            found += [*own_certificate(channel.listen.fhir.server), await _check(channel, channel.listen.fhir)]
    return found


async def _check(channel: Channel, of: FhirEvents) -> Check:
    name, address = f"events of {channel.channel}", of.server.base_url
    try:
        reader = reader_of(channel, of)
    except AdtEngineError as error:
        return Check(name, CheckStatus.FIX, str(error), "fix the file, or the key that names it")
    try:
        await reader.server.check()
        await reader.server.try_sign_in()
        findings = [*_subscriptions(reader, of), await _history(reader, of)]
    except DestinationError as error:
        found, do = refusal_of(of.server, error)
        return Check(name, CheckStatus.FIX, f"{address}: {found}", do)
    except AdtEngineError as error:
        do = MENDS.get(str(error), "start it, or correct base_url and auth of listen.fhir.server")
        return Check(name, CheckStatus.FIX, f"{address}: {cause_in_words(str(error))}", do)
    finally:
        await reader.close()
    standing = next(one for one in GRAVEST if one in {each for each, _, _ in findings})
    found = "; ".join((address, *(words for _, words, _ in findings)))
    return Check(name, standing, found, "; ".join(do for _, _, do in findings if do))


def _subscriptions(reader: FhirReader, of: FhirEvents) -> Iterator[Finding]:
    """Yield whether the server takes Subscriptions of the engine, and sends where they say."""
    if of.source != SUBSCRIPTION:
        return
    if reader.server.keeps(RESOURCE):
        yield CheckStatus.GOOD, "takes Subscriptions, as far as it says", ""
    else:
        yield CheckStatus.FIX, f"lists no {RESOURCE}", f"have them switched on there, or write source: {HISTORY}"
    to = urlsplit(of.endpoint)
    if to.scheme != "https" and of.server.profile == BY_TYPE:
        yield CheckStatus.FIX, f"sends to https only, and endpoint is {of.endpoint}", "give the engine's https address"
    elif is_loopback(to.hostname or ""):
        do = "give the address at which the server reaches the engine, unless both are on this machine"
        yield CheckStatus.LOOK, f"endpoint is {of.endpoint}", do


async def _history(reader: FhirReader, of: FhirEvents) -> Finding:
    """Say whether the server has a history of each type."""
    if of.source == WEBHOOK:
        return CheckStatus.GOOD, f"answers; its Subscriptions are made there, to /fhir/events/{of.path}", ""
    lacking = [type_ for type_ in of.types if not await _has_history(reader, type_)]
    if not lacking:
        return CheckStatus.GOOD, f"has a history of {' and '.join(of.types)}", ""
    found = f"gives no history of {' and '.join(lacking)}"
    if of.source == HISTORY:
        do = f"have it switched on and allowed there, or write source: {SUBSCRIPTION}"
        return CheckStatus.FIX, found, do
    return CheckStatus.LOOK, f"{found}: missed events and deletions are lost", "have it switched on and allowed there"


async def _has_history(reader: FhirReader, type_: str) -> bool:
    try:
        answer = await reader.get(f"{type_}/_history?_count=1")
    except DeliveryError as error:
        if error.status in NOT_OFFERED:
            return False
        raise
    return answer.status == 200 and isinstance(answer.json, dict) and answer.json.get("resourceType") == "Bundle"
