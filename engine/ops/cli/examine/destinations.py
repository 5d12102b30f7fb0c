"""Destinations, and the secrets that channels refer to: what each server can do, and what it ignores."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from engine.config.channel import AnyDestination
from engine.config.destination import CLIENT_ID, CONDITIONAL, CREATE_ONLY
from engine.config.destination import Destination as Settings
from engine.config.profile import GENERIC, guessed, profile_of
from engine.config.relay import Relay
from engine.config.secret import Secret
from engine.deliver.destination import FhirDestination
from engine.deliver.interactions import LEFT_OUT
from engine.deliver.relay import RelayDestination
from engine.deliver.wire.abilities import Abilities
from engine.errors import AdtEngineError, DeliveryError, DestinationError, StartError
from engine.journal.state.memory import proofs_in
from engine.ops.cli.examine.check import Check, CheckStatus
from engine.ops.cli.examine.machine import ends
from engine.ops.views.incident import cause_in_words
from engine.ops.views.reasons import reason_of
from engine.pipeline.configuration import Configuration
from engine.pipeline.engine import destination_of

# How long a relay's receiver has to close a connection whose certificate it does not take.
PATIENCE_SECONDS: Final = 0.5
GRAVEST: Final = (CheckStatus.FIX, CheckStatus.LOOK, CheckStatus.GOOD)

# What mends a failure that is not the server's own.
MENDS: Final = {
    "proxy-unreachable": "start the proxy, or correct proxy",
    "proxy-authentication": "correct proxy_user and proxy_password",
    "proxy-forbids": "have the proxy let the engine through to this address, or correct proxy",
    "proxy-failed": "ask who runs the proxy whether it reaches this address",
    "client-certificate-refused": "set client_certificate and client_key to a pair that the server takes",
    "header-unusable": "correct the secrets that headers names",
}

Finding = tuple[CheckStatus, str, str]


def secrets(configuration: Configuration) -> Iterator[Check]:
    """Yield the secrets of channels, alerts and sites that cannot be read, each by the name of its reference."""
    authored = {**configuration.channels, "alerts": configuration.alerting, "sites": configuration.sites}
    seen: set[Secret] = set()
    for name, model in authored.items():
        for place, secret in _secrets(model, ""):
            if secret in seen:
                continue
            seen.add(secret)
            try:
                secret.read()
            except LookupError as error:
                yield Check(f"{place} of {name}", CheckStatus.FIX, str(error), "set it, or correct the reference")


def _secrets(value: object, place: str) -> Iterator[tuple[str, Secret]]:
    if isinstance(value, Secret):
        yield place, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name), f"{place}.{name}".removeprefix("."))
    elif isinstance(value, tuple | list):
        for at, item in enumerate(value):
            yield from _secrets(item, f"{place}[{at}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets(item, f"{place}.{key}")


async def destinations(configuration: Configuration, data: Path) -> list[Check]:
    """Ask each destination what it can do; nothing is written there."""
    found = []
    for settings in configuration.destinations.values():
        asked = _relay(settings) if isinstance(settings, Relay) else _check(settings, configuration, data)
        found += [*own_certificate(settings), await asked]
    return found


def own_certificate(settings: AnyDestination) -> Iterator[Check]:
    """Yield until when the engine's own certificate for a destination is valid; a file of none is told by the next."""
    if settings.own_certificate is not None:
        with suppress(OSError, ValueError):
            yield ends(f"client certificate for {settings.name}", Path(settings.own_certificate))


async def _relay(settings: Relay) -> Check:
    """Open a connection to the receiver of a relay; nothing is sent there."""
    name = f"destination {settings.name}"
    try:
        relay = RelayDestination(settings, ticks=time.monotonic)
    except StartError as error:
        return Check(name, CheckStatus.FIX, str(error), "correct tls")
    try:
        await relay.check(PATIENCE_SECONDS)
    except DeliveryError as error:
        found = f"{settings.address}: {cause_in_words(str(error))}"
        return Check(name, CheckStatus.FIX, found, reason_of(str(error)).next_step)
    finally:
        await relay.close()
    return Check(name, CheckStatus.GOOD, f"{settings.address}: takes connections; nothing was sent")


async def _check(settings: Settings, configuration: Configuration, data: Path) -> Check:
    name = f"destination {settings.name}"
    try:
        destination = destination_of(settings, configuration)
    except AdtEngineError as error:
        return Check(name, CheckStatus.FIX, str(error), "fix the file, or the key that names it")
    try:
        destination.proofs.known |= proofs_in(data, settings.name)
        abilities = await destination.check()
        await destination.try_sign_in()
        base = await destination.lookup_base() if _looks_up(settings, configuration) else None
        lacking = _lacking(destination, configuration)
    except DestinationError as error:
        found, do = refusal_of(settings, error)
        return Check(name, CheckStatus.FIX, f"{settings.base_url}: {found}", do)
    except AdtEngineError as error:
        do = MENDS.get(str(error), "start it, or correct base_url and auth")
        return Check(name, CheckStatus.FIX, f"{settings.base_url}: {error}", do)
    finally:
        await destination.close()
    return check_of(name, settings, abilities, base, lacking)


_CLOCK: Final = "set the clock (timedatectl, chronyc tracking): signatures and assertions are good for minutes only"
# Why a sign-in fails, by the codes of its error, the most exact first; the keys of `auth` stand in braces. Those of
# Entra are its AADSTS numbers.
SIGN_IN: Final[Mapping[str, tuple[str, str]]] = {
    "sign-in-clock-behind": (
        "the sign-in is refused, and this machine's clock is behind by more than a minute",
        _CLOCK,
    ),
    "sign-in-clock-ahead": ("the sign-in is refused, and this machine's clock is ahead by more than a minute", _CLOCK),
    "aadsts700016": ("Entra knows no client {client_id} there", "correct client_id, or the tenant in token_url"),
    "aadsts7000215": ("Entra refuses the secret", "give the secret's value, not its id"),
    "aadsts7000222": ("the secret has expired", "make a new one there"),
    "aadsts700027": ("Entra does not know the certificate", "upload {certificate} there, for the client {client_id}"),
    "aadsts500011": ("Entra knows no resource of that scope or audience", "correct scope: the FHIR URL/.default"),
    "aadsts70011": ("Entra does not know the scope {scope}", "correct scope: the FHIR URL/.default"),
    "aadsts1002012": ("Entra does not know the scope {scope}", "correct scope: the FHIR URL/.default"),
    "invalid_scope": (
        "the token server gives no scope {scope}",
        "correct scope, or have it allowed there for the client {client_id}",
    ),
    "invalid_target": ("the token server knows no audience {audience}", "correct audience"),
    "invalid_resource": ("the token server knows no audience {audience}", "correct audience"),
    "invalid_client": (
        "the token server refuses the client {client_id} or what proves it",
        "correct client_id and its secret or key; where the secret is right, try method: basic, or audience",
    ),
    "unauthorized_client": ("the client {client_id} may not sign in this way", "have it allowed there"),
    "unsupported_grant_type": ("the token server does not know this kind of sign-in", "give another type"),
    "invalid_grant": (
        "the token server refuses the refresh token or assertion",
        "give a new refresh token, or register the key there",
    ),
    "token-refused": ("the token server refuses the sign-in and does not say why", "see its log; correct auth"),
    "secret-unreadable": (
        "a secret of auth, headers or proxy_password cannot be read or sent",
        "set it, or correct the reference",
    ),
    "private-key-unusable": ("the private key of auth cannot be used", "run `adt-engine channels check`"),
    "signing-certificate-unusable": ("the certificate cannot be read, or is not of the key", "correct certificate"),
    "no-credentials": (
        "there is no AWS access key",
        "give access_key_id and secret_access_key, aws_profile, AWS_ACCESS_KEY_ID, or a role of the machine",
    ),
    "http-401": ("the server refuses the sign-in (401)", "correct auth; a token may be of another scope or audience"),
    "http-403": (
        "the server allows no search of patients (403)",
        "have its scopes or its role allow it; of aws_sigv4 check region, too",
    ),
}
_BY_METADATA: Final = frozenset({"managed_identity", "google_metadata", "aws_sigv4"})


def refusal_of(settings: Settings, error: DestinationError) -> tuple[str, str]:
    """Return why nobody can sign in to a destination, and what to do about it; nothing of a credential."""
    auth = settings.auth
    if "token-unavailable" in error.codes:
        why = ", ".join(error.codes[1:]) or "no answer"
        if auth.type in _BY_METADATA:
            return f"the metadata service of the cloud gives nothing ({why})", "give the machine an identity or a role"
        return f"the token server does not answer ({why})", "start it, or correct token_url"
    code = next((code for code in SIGN_IN if code in error.codes), "")
    if not code:
        return str(error), "start it, or correct base_url and auth"
    keys = {name: getattr(auth, name) or "(none)" for name in ("client_id", "scope", "audience", "certificate")}
    found, do = SIGN_IN[code]
    return found.format(**keys), do.format(**keys)


def _looks_up(settings: Settings, configuration: Configuration) -> bool:
    return any(
        channel.lookup_on and settings.name in {one.name for one in channel.destinations}
        for channel in configuration.channels.values()
    )


def _lacking(destination: FhirDestination, configuration: Configuration) -> tuple[str, ...]:
    """Return the types that are sent to a destination and that it does not list; none where it lists nothing."""
    at = destination.settings.name
    channels = [name for name, one in configuration.channels.items() if at in {each.name for each in one.destinations}]
    mappings = [configuration.own_mappings.get((name, at)) or configuration.mappings[name] for name in channels]
    sent = {type_ for mapping in mappings for type_ in mapping.sends}
    return tuple(sorted(type_ for type_ in sent - LEFT_OUT if not destination.keeps(type_)))


def check_of(
    name: str,
    settings: Settings,
    abilities: Abilities,
    lookup_base: str | None = None,
    lacking: tuple[str, ...] = (),
) -> Check:
    """Return what a destination's abilities mean for its settings.

    `lookup_base`: the base that takes look-ups, empty for none, None where no channel asks for any. `lacking`: the
    types that mappings send and that it does not list.
    """
    server = f"{abilities.server} at {settings.base_url}" if abilities.server else settings.base_url
    findings = [_merging(settings, abilities), _versions(abilities), _bundles(settings, abilities)]
    if settings.create != CONDITIONAL:
        findings.append(_creates(settings, abilities))
    if lacking:
        findings.append(_types(lacking))
    if settings.notify != "off":
        findings.append(_notices(abilities))
    if lookup_base is not None:
        findings.append(_look_ups(settings, lookup_base))
    findings.insert(-1, _profile(settings, abilities))
    standing = next(one for one in GRAVEST if one in {each for each, _, _ in findings})
    found = "; ".join((server, *(words for _, words, _ in findings)))
    return Check(name, standing, found, "; ".join(do for _, _, do in findings if do))


def _profile(settings: Settings, abilities: Abilities) -> Finding:
    """Say which profile is used, and which one the server's name or address speaks for."""
    named, guess = settings.profile, guessed(abilities.server, settings.base_url)
    if not guess or guess == named:
        return CheckStatus.GOOD, f"profile {named}", ""
    found = f"profile {named}; it looks like {profile_of(guess).title}"
    changes = profile_of(guess).changes(settings)
    forbids = [key for (key,), _found, _do in profile_of(guess).faults(settings)]
    if named == GENERIC and not changes and not forbids:
        return CheckStatus.GOOD, found, ""
    about = f", which sets or checks {', '.join(sorted({*changes, *forbids}))}" if changes or forbids else ""
    return CheckStatus.LOOK, found, f"set profile: {guess}{about}, or leave it if you know better"


def _creates(settings: Settings, abilities: Abilities) -> Finding:
    """Say how records are created there, and whether it says that it takes that."""
    if settings.create == CLIENT_ID and abilities.update_create is False:
        do = "have ids of clients allowed there (updateCreate), or write create: conditional: else nobody is created"
        return CheckStatus.FIX, "takes no ids of a client (create: client-id)", do
    if settings.create == CLIENT_ID and abilities.update_create is None:
        return CheckStatus.GOOD, "does not say whether it takes ids of a client (create: client-id)", ""
    return CheckStatus.GOOD, f"creates by {settings.create}", ""


def _merging(settings: Settings, abilities: Abilities) -> Finding:
    """Say how records are merged there; `merge_operation` names what a server has and does not list."""
    if settings.writes == CREATE_ONLY:
        return CheckStatus.GOOD, "merges nothing (writes: create-only)", ""
    named, listed = settings.merge_operation, abilities.operation
    if settings.merge_strategy in {"link", "notify-only"}:
        return CheckStatus.GOOD, f"merges by {settings.merge_strategy}", ""
    if named:
        also = "" if named == listed else f"; the server lists {f'${listed}' if listed else 'none'}"
        return CheckStatus.GOOD, f"merges by ${named} (merge_operation{also})", ""
    if listed:
        return CheckStatus.GOOD, f"merges by ${listed}, as it lists", ""
    do = "set merge_operation if it has a merge that it does not list, else merge_strategy to link or notify-only"
    if settings.merge_strategy == "merge" or not abilities.stated:
        return CheckStatus.FIX, "lists no $merge", do
    return CheckStatus.LOOK, "lists no $merge: records are linked", do


def _versions(abilities: Abilities) -> Finding:
    """Say whether If-Match is honoured, as far as it was tried or may be."""
    if abilities.if_match:
        return CheckStatus.GOOD, "honours If-Match, as tested", ""
    if abilities.provable:
        return CheckStatus.GOOD, "If-Match is tested with the first update", ""
    do = "every update reads first, and what others write in between is lost: ask the server's administrator"
    return CheckStatus.LOOK, "ignores If-Match" if abilities.versioned else "keeps no versions for If-Match", do


def _bundles(settings: Settings, abilities: Abilities) -> Finding:
    """True if what is sent with a patient goes as one transaction."""
    if not abilities.transaction:
        return CheckStatus.GOOD, "offers no transactions: one request a resource", ""
    if settings.bundle == "off":
        return CheckStatus.GOOD, "one request a resource (bundle: off)", ""
    return CheckStatus.GOOD, "takes a visit and what it names as one transaction", ""


def _types(lacking: tuple[str, ...]) -> Finding:
    """Say which types it does not list; it may take them all the same."""
    do = "take them out of the mapping's resources and events, or have them switched on there: else messages are held"
    return CheckStatus.LOOK, f"lists no {', '.join(lacking)}, which the mapping may send", do


def _notices(abilities: Abilities) -> Finding:
    """Say whether it lists that it takes notices of ADT events (`notify`); it may take them all the same."""
    if not abilities.notices:
        do = "take notify out, or see what becomes of the first notice with `messages show`"
        return CheckStatus.LOOK, "lists no $process-message, so it may take no notices (notify)", do
    return CheckStatus.GOOD, "takes notices of ADT events, as it lists", ""


def _look_ups(settings: Settings, base: str) -> Finding:
    """Say whether patients can be looked up there (`lookup_on`)."""
    if not base:
        do = "take lookup_on out of the channel, or set lookup_base_url if another base of the server has it"
        return CheckStatus.LOOK, "lists no $p360-retrieve: nobody is looked up (lookup_on)", do
    named = " (lookup_base_url, taken at its word)" if settings.lookup_base_url else ""
    return CheckStatus.GOOD, f"looks patients up at {base}{named}", ""
