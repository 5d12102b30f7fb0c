"""Every value of every key is checked: one wrong value a key, told with its place, what was found and what would do.

The keys come from the models: one without a row fails here.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from engine.config.alerting import FILE, Alerting, look_at_alerting
from engine.config.channel import Channel
from engine.config.channels import read_channels
from engine.config.laboratory import USED
from engine.config.reference import setting_rows
from engine.config.relay import Relay
from engine.config.service import ServiceConfiguration
from engine.config.source import look, parse
from engine.errors import Problem
from engine.pipeline.configuration import Files, examine, lacking

SECRET: Final = {"env": "ADT_ENGINE_TEST_SECRET"}
CHANNEL: Final[dict[str, Any]] = {
    "channel": "riverbend",
    "listen": {
        "mllp": {"host": "127.0.0.1", "port": 2575, "tls": {"certificate": "", "key": ""}},
        "http": {"path": "r"},
    },
    "destinations": [
        {
            "name": "interchange",
            "base_url": "http://127.0.0.1:8080/fhir/R4",
            "auth": {"type": "bearer", "token": SECRET},
        }
    ],
}
CREDENTIALS: Final = {
    "type": "client_credentials",
    "token_url": "https://auth.example/token",
    "client_id": "engine",
    "client_secret": SECRET,
}
BY_KEY: Final = {name: value for name, value in CREDENTIALS.items() if name != "client_secret"} | {
    "type": "private_key_jwt",
    "private_key": SECRET,
}
BY_REFRESH: Final = {**CREDENTIALS, "type": "refresh_token", "refresh_token": SECRET}
BY_PASSWORD: Final = {"type": "basic", "username": "engine", "password": SECRET}
BY_CERTIFICATE: Final = {**BY_KEY, "type": "entra_certificate", "certificate": "x.pem", "scope": "https://x/.default"}
BY_ACCOUNT: Final = {"type": "google_service_account", "key_file": SECRET}
BY_SIGNATURE: Final = {"type": "aws_sigv4", "region": "us-east-1"}
BY_ACCESS_KEY: Final = {**BY_SIGNATURE, "access_key_id": SECRET, "secret_access_key": SECRET}
# What else must stand there for a row: another form of the credentials.
BESIDE: Final[dict[str, tuple[str, Any]]] = {
    "destinations[].auth.token_url": ("destinations[].auth", CREDENTIALS),
    "destinations[].auth.client_id": ("destinations[].auth", CREDENTIALS),
    "destinations[].auth.client_secret": ("destinations[].auth", CREDENTIALS),
    "destinations[].auth.scope": ("destinations[].auth", CREDENTIALS),
    "destinations[].auth.private_key": ("destinations[].auth", BY_KEY),
    "destinations[].auth.key_id": ("destinations[].auth", BY_KEY),
    "destinations[].auth.refresh_token": ("destinations[].auth", BY_REFRESH),
    "destinations[].auth.method": ("destinations[].auth", BY_KEY),
    "destinations[].auth.username": ("destinations[].auth", BY_PASSWORD),
    "destinations[].auth.password": ("destinations[].auth", BY_PASSWORD),
    "destinations[].auth.certificate": ("destinations[].auth", BY_CERTIFICATE),
    "destinations[].auth.algorithm": ("destinations[].auth", BY_CERTIFICATE),
    "destinations[].auth.audience": ("destinations[].auth", {"type": "managed_identity", "audience": "https://x"}),
    "destinations[].auth.key_file": ("destinations[].auth", BY_ACCOUNT),
    "destinations[].auth.region": ("destinations[].auth", BY_SIGNATURE),
    "destinations[].auth.service": ("destinations[].auth", BY_SIGNATURE),
    "destinations[].auth.access_key_id": ("destinations[].auth", BY_ACCESS_KEY),
    "destinations[].auth.secret_access_key": ("destinations[].auth", BY_ACCESS_KEY),
    "destinations[].auth.session_token": ("destinations[].auth", BY_SIGNATURE),
    "destinations[].auth.aws_profile": ("destinations[].auth", BY_ACCESS_KEY),
}
NO_FILE: Final = "name a file that the user who runs the engine can read"

# Key, wrong value, what is said to be found, what would do; the place is that of the key, or of what follows it.
CHANNEL_ROWS: Final = (
    ("channel", "river bend", "found 'river bend'", "letters, digits"),
    ("listen.mllp.host", "127.0.0.300", "found '127.0.0.300'", "an address such as 127.0.0.1"),
    ("listen.mllp.port", 70000, "found '70000'", "at most 65535"),
    ("listen.mllp.tls.certificate", "/no/such.pem", "No such file", NO_FILE),
    ("listen.mllp.tls.key", "/no/such.key", "No such file", NO_FILE),
    ("listen.mllp.tls.client_ca", "/no/such.ca", "No such file", NO_FILE),
    ("listen.mllp.tls.client_names", {"lab": "LAB"}, "without client_ca", "client_ca too"),
    ("listen.mllp.commit_bytes", "perhaps", "found 'perhaps'", "true or false"),
    ("listen.mllp.reuse_port", "perhaps", "found 'perhaps'", "true or false"),
    ("listen.http.path", "a/b", "found 'a/b'", "letters, digits"),
    ("listen.fhir.path", "a/b", "found 'a/b'", "letters, digits"),
    ("listen.fhir.server", "record", "found a plain value", "block of keys"),
    ("listen.fhir.source", "pigeon", "found 'pigeon'", "'webhook', 'subscription' or 'history'"),
    ("listen.fhir.types", ["Patient", "Patient"], "Patient again", "each type once"),
    ("listen.fhir.every_seconds", 0, "found '0'", "at least 0.1"),
    ("listen.fhir.endpoint", "hub.example", "found 'hub.example'", "https://"),
    ("listen.fhir.token", "swordfish", "a secret written in the file", "env"),
    ("allow", ["10.1.2.3/8"], "found '10.1.2.3/8'", "beyond its mask"),
    ("insecure", "acceptd", "found 'acceptd'", "'accepted'"),
    ("acknowledge.when", "delivred", "found 'delivred'", "did you mean delivered?"),
    ("acknowledge.within_seconds", "inf", "found 'inf'", "a number"),
    ("acknowledgement_mode", "enhansed", "found 'enhansed'", "did you mean enhanced?"),
    ("allow_merge", "perhaps", "found 'perhaps'", "true or false"),
    ("merge_limit.merges", 0, "found '0'", "at least 1"),
    ("merge_limit.minutes", 1e300, "found '1e+300'", "at most"),
    ("processing_ids", ["Q"], "found 'Q'", "'P'"),
    ("mapping", "adtt", "no mapping 'adtt'", "did you mean adt?"),
    ("timezone", "Amerika/New_York", "found 'Amerika/New_York'", "did you mean America/New_York?"),
    ("authorities", {"RVB": "riverbend"}, "found 'riverbend'", "an absolute URI"),
    ("unknown_authority", "refus", "found 'refus'", "did you mean refuse?"),
    ("base_uri", "authority", "found 'authority'", "an absolute URI"),
    ("keys", {"study": {"env": "NO_SUCH_SECRET"}}, "variable NO_SUCH_SECRET is not set", "--offline"),
    ("limits.block_bytes", 12, "found '12'", "at least 1024"),
    ("limits.block_seconds", 0, "found '0'", "above 0"),
    ("limits.idle_seconds", -1, "found '-1'", "at least 0"),
    ("limits.connections", 0, "found '0'", "at least 1"),
    ("limits.connections_per_address", 10**30, "found '1000", "at most"),
    ("limits.segments", "many", "found 'many'", "a whole number"),
    ("limits.repetitions", 0, "found '0'", "at least 1"),
    ("limits.identities", 0, "found '0'", "at least 1"),
    ("limits.unread_reply_bytes", 1, "found '1'", "at least 1024"),
    ("limits.in_flight", 0, "found '0'", "at least 1"),
    ("destinations[].name", "a b", "found 'a b'", "letters, digits"),
    ("destinations[].type", "fhri", "found 'fhri'", "did you mean fhir?"),
    ("destinations[].profile", "azur", "found 'azur'", "did you mean azure?"),
    ("destinations[].fhir", "R5", "found 'R5'", "'R4'"),
    ("destinations[].base_url", "http://127.0.0.1:80800/fhir", "80800", "a whole URL"),
    ("destinations[].mapping", "adtt", "no mapping 'adtt'", "did you mean adt?"),
    ("destinations[].auth.type", "bearr", "found 'bearr'", "did you mean bearer?"),
    ("destinations[].auth.token_url", "auth.example/token", "found 'auth.example/token'", "a whole URL"),
    ("destinations[].auth.client_id", "", "missing", "needs client_id"),
    ("destinations[].auth.client_secret", {"env": "NO_SUCH_SECRET"}, "variable NO_SUCH_SECRET is not set", "--offline"),
    ("destinations[].auth.method", "basic", "basic without client_secret", "client_secret too"),
    ("destinations[].auth.username", "a:b", "a colon", "without one"),
    ("destinations[].auth.password", {"env": "NO_SUCH_SECRET"}, "NO_SUCH_SECRET is not set", "--offline"),
    ("destinations[].auth.token", {"file": "/no/such/secret"}, "/no/such/secret cannot be read", "--offline"),
    ("destinations[].auth.refresh_token", {"env": "NO_SUCH_SECRET"}, "NO_SUCH_SECRET is not set", "--offline"),
    ("destinations[].auth.private_key", SECRET, "no private key", "PEM or JWK"),
    ("destinations[].auth.key_id", "a\tb", "found 'a\\tb'", "one line"),
    ("destinations[].auth.certificate", "/no/such.pem", "No such file", NO_FILE),
    ("destinations[].auth.algorithm", "ES256", "ES256 for entra_certificate", "one of PS256, RS256"),
    ("destinations[].auth.scope", ["system/*.*"], "found a list", "a word or a text"),
    ("destinations[].auth.audience", "", "missing", "needs audience"),
    ("destinations[].auth.key_file", SECRET, "no key of a service account", "the JSON file"),
    ("destinations[].auth.region", "", "missing", "needs region"),
    ("destinations[].auth.service", "Health Lake", "found 'Health Lake'", "as AWS writes it"),
    ("destinations[].auth.access_key_id", None, "missing", "both halves"),
    ("destinations[].auth.secret_access_key", None, "missing", "both halves"),
    ("destinations[].auth.session_token", SECRET, "without an access key", "access_key_id"),
    ("destinations[].auth.aws_profile", "prod", "with an access key", "one of them"),
    ("destinations[].if_none_exist", "demographic", "found 'demographic'", "did you mean demographics?"),
    ("destinations[].concurrency", 0, "found '0'", "at least 1"),
    ("destinations[].rate.requests_per_second", 0, "found '0'", "above 0"),
    ("destinations[].rate.burst", 0.5, "found '0.5'", "a whole number"),
    ("destinations[].retry.first_seconds", "nan", "found 'nan'", "a number"),
    ("destinations[].retry.max_seconds", 0.5, "less than first_seconds", "at least 1"),
    ("destinations[].retry.hold_after_tries", "never", "found 'never'", "a whole number"),
    ("destinations[].retry.hold_after_seconds", "inf", "found 'inf'", "a number"),
    ("destinations[].timeout_seconds", 0, "found '0'", "above 0"),
    ("destinations[].ca_file", "/no/such.pem", "No such file", NO_FILE),
    ("destinations[].client_certificate", ["a.pem"], "found a list", "a word or a text"),
    ("destinations[].client_key", "", "found ''", "a word or a text"),
    ("destinations[].headers", {"If-Match": "x"}, "found 'If-Match'", "leave it out"),
    ("destinations[].proxy", "proxy.example:3128", "found 'proxy.example:3128'", "http:// with host and port"),
    ("destinations[].proxy_user", "a\tb", "found 'a\\tb'", "one line"),
    ("destinations[].proxy_password", {"env": "NO_SUCH_SECRET"}, "NO_SUCH_SECRET is not set", "--offline"),
    ("destinations[].on_demographic_match", "attachs", "found 'attachs'", "did you mean attach?"),
    ("destinations[].on_held", "hold", "found 'hold'", "did you mean hold-lane?"),
    ("destinations[].required", "maybe", "found 'maybe'", "true or false"),
    ("destinations[].carry_over", ["telcom"], "found 'telcom'", "did you mean telecom?"),
    ("destinations[].merge_strategy", "links", "found 'links'", "did you mean link?"),
    ("destinations[].merge_operation", "$merge it", "found '$merge it'", "an operation's name"),
    ("destinations[].lookup_base_url", "http://127.0.0.1:8081/fhir", "on another server", "a base beside base_url"),
    ("destinations[].notify", "adminnotify", "found 'adminnotify'", "did you mean admin-notify?"),
    ("destinations[].bundle", "of", "found 'of'", "did you mean off?"),
    ("destinations[].create", "client-ids", "found 'client-ids'", "did you mean client-id?"),
    ("destinations[].writes", "create", "found 'create'", "did you mean create-only?"),
    ("destinations[].collapse.events", ["A03"], "found 'A03'", "one of 'A08' or 'A31'"),
    ("destinations[].collapse.seconds", 601, "found '601'", "at most 600"),
    ("destinations[].behaviour.read_headers", {"X-Level": "a\nb"}, "no header can have", "one line"),
    ("destinations[].behaviour.idempotency_header", "a b", "found 'a b'", "letters, digits"),
    ("destinations[].behaviour.bundle_entries", 0, "found '0'", "at least 1"),
    ("destinations[].behaviour.lock_refusal.statuses", [200], "found '200'", "at least 400"),
    ("destinations[].behaviour.lock_refusal.texts", ["ab"], "found 'ab'", "at least 3"),
    ("filters[].rule", "test patients", "found 'test patients'", "letters, digits"),
    ("filters[].when", "PDI-5", "unknown segment 'PDI'", "did you mean 'PID'?"),
    ("filters[].do", "filtr", "found 'filtr'", "did you mean filter?"),
    ("filters[].send_to", ["nowhere"], "no destination 'nowhere'", "valid here"),
    ("mode", "lvie", "found 'lvie'", "did you mean live?"),
    ("sources", ["|RVB"], "found '|RVB'", "MSH-3|MSH-4"),
    ("version", "2.10", "found '2.10'", "did you mean 2.1?"),
    ("event_from_evn", "perhaps", "found 'perhaps'", "true or false"),
    ("charset", "8859-1", "found '8859-1'", ""),
    ("undecodable", "holds", "found 'holds'", "did you mean hold?"),
    ("conformance", "wran", "found 'wran'", "did you mean warn?"),
    ("not_a_segment", "refsue", "found 'refsue'", "did you mean refuse?"),
    ("validate", "refuze", "found 'refuze'", "did you mean refuse?"),
    ("stale", "applys", "found 'applys'", "did you mean apply?"),
    ("merge_conflict", "flags", "found 'flags'", "did you mean flag?"),
    ("another_person", "hld", "found 'hld'", "did you mean hold?"),
    ("unknown_source", "reject it", "found 'reject it'", "did you mean reject?"),
    ("unknown_survivor", "renames", "found 'renames'", "did you mean rename?"),
    ("merged_identifier", "followw", "found 'followw'", "did you mean follow?"),
    ("visit_reuse", "reopn", "found 'reopn'", "did you mean reopen?"),
    ("retire", "deleted", "found 'deleted'", "did you mean delete?"),
    ("deleted_person", "inactivee", "found 'inactivee'", "did you mean inactive?"),
    ("demographics", "replaces", "found 'replaces'", "did you mean replace?"),
    ("placeholder_identifiers", ["UNKNOWN "], "found 'UNKNOWN '", "without blanks"),
    ("unhandled_events", "filtr", "found 'filtr'", "did you mean filter?"),
    ("unhandled_messages", "filtr", "found 'filtr'", "did you mean filter?"),
    ("lookup_on", ["A01", "A63"], "found 'A63'", "at most A62"),
    ("lookup_max_age_hours", 0, "found '0'", "above 0"),
    ("retention.delivered.bodies_days", -1, "found '-1'", "at least 0"),
    ("retention.delivered.entries_days", 1, "less than bodies_days", "at least 30"),
    ("retention.filtered.bodies_days", 1e300, "found '1e+300'", "at most"),
    ("retention.filtered.entries_days", "for ever", "found 'for ever'", "a number"),
    ("retention.rejected.bodies_days", "inf", "found 'inf'", "a number"),
    ("retention.rejected.entries_days", -1, "found '-1'", "at least 0"),
    ("retention.discarded.bodies_days", -1, "found '-1'", "at least 0"),
    ("retention.discarded.entries_days", 1, "less than bodies_days", "at least 90"),
    ("contact", "desk\x1b[2J", "found", "one line"),
)

ALERT_ROWS: Final = (
    ("webhook.url", "http://alerts.example/hook", "found 'http://alerts", "write an https URL"),
    ("webhook.token", {"env": "NO_SUCH_SECRET"}, "NO_SUCH_SECRET is not set", "--offline"),
    ("webhook.ca_file", "/no/such.pem", "No such file", NO_FILE),
    ("webhook.timeout_seconds", 61, "found '61'", "at most 60"),
    ("held_lanes", 0, "found '0'", "at least 1"),
    ("destination_down_seconds", 0, "found '0'", "at least 1"),
    ("queue_age_minutes", 0, "found '0'", "above 0"),
    ("queue_depth", 0, "found '0'", "at least 1"),
    ("no_traffic_minutes", -1, "found '-1'", "at least 0"),
    ("no_sender_minutes", "inf", "found 'inf'", "a number"),
    ("error_ratio", 25, "found '25'", "at most 1"),
    ("refusal_ratio", 0, "found '0'", "above 0"),
    ("certificate_days", 0, "found '0'", "above 0"),
    ("disk_reserves", 0.5, "found '0.5'", "at least 1"),
    ("merge_burst", 2, "found '2'", "at most 1"),
    ("log_in_failures", 0, "found '0'", "at least 1"),
    ("token_failures", 1.5, "found '1.5'", "a whole number"),
    ("channels.NAME.no_traffic_minutes", -1, "found '-1'", "at least 0"),
    ("channels.NAME.no_sender_minutes", "soon", "found 'soon'", "a number"),
)

SERVICE: Final[dict[str, Any]] = {
    "environment": "sandbox",
    "base_url": "https://cdis.example",
    "service_identifier_system": "https://cdis.example",
    "tenants": {"NAME": {}},
    "clients": {"NAME": {"tenant": "NAME", "secret": SECRET}},
    "users": {"NAME": {"tenant": "NAME", "role": "nurse"}},
}
P256: Final = {"kty": "EC", "crv": "P-256", "x": "x", "y": "y"}
SERVICE_ROWS: Final = (
    ("environment", "prodution", "found 'prodution'", "did you mean production?"),
    ("base_url", "https://cdis.example/", "found 'https://cdis.example/'", "no slash at the end"),
    ("auth_url", "ftp://cdis.example", "found 'ftp://cdis.example'", "http:// or https://"),
    ("service_identifier_system", "cdis", "found 'cdis'", "an address or a urn"),
    ("tenants.NAME.duplicate_patient_limit", 0, "found '0'", "at least 1"),
    ("tenants.NAME.scope_enforcement", "of", "found 'of'", "did you mean off?"),
    ("tenants.NAME.rest_api_version", "2025-06", "found '2025-06'", "did you mean 2025-06-01?"),
    ("tenants.NAME.history.keep", "al", "found 'al'", "all"),
    ("tenants.NAME.organization.name", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.organization.npi", "12", "found '12'", "ten digits"),
    ("tenants.NAME.organization.oid", "9.1", "found '9.1'", "an OID such as"),
    ("tenants.NAME.organization.telephone", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.organization.street", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.organization.city", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.organization.state", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.organization.postal_code", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.organization.country", ["x"], "found a list", "a word or a text"),
    ("tenants.NAME.network_mode", "mock", "found 'mock'", "did you mean mocked?"),
    ("tenants.NAME.connectors.NAME.type", "fhr", "found 'fhr'", "did you mean fhir?"),
    ("tenants.NAME.connectors.NAME.organization", "a\nb", "found 'a\\nb'", "one line"),
    ("tenants.NAME.connectors.NAME.timeout_s", 0, "found '0'", "above 0"),
    ("tenants.NAME.connectors.NAME.url", "ftp://other.example", "found 'ftp://other.example'", "a whole URL"),
    ("tenants.NAME.connectors.NAME.version", "R5", "found 'R5'", "'R4'"),
    ("tenants.NAME.connectors.NAME.auth.token_url", "other", "found 'other'", "a whole URL"),
    ("tenants.NAME.connectors.NAME.auth.client_id", "", "missing", "who asks"),
    (
        "tenants.NAME.connectors.NAME.auth.client_secret",
        {"env": "NO_SUCH_SECRET"},
        "NO_SUCH_SECRET is not set",
        "--offline",
    ),
    (
        "tenants.NAME.connectors.NAME.auth.private_key",
        {"env": "NO_SUCH_SECRET"},
        "NO_SUCH_SECRET is not set",
        "--offline",
    ),
    ("tenants.NAME.connectors.NAME.auth.method", "form", "found 'form'", "'post'"),
    ("tenants.NAME.connectors.NAME.auth.key_id", "a\nb", "found 'a\\nb'", "one line"),
    ("tenants.NAME.connectors.NAME.auth.scope", "a\nb", "found 'a\\nb'", "one line"),
    ("tenants.NAME.connectors.NAME.ca_file", "/no/such.pem", "No such file", NO_FILE),
    ("tenants.NAME.connectors.NAME.folder", "/no/such", "/no/such is no folder", "can read"),
    ("tenants.NAME.connectors.NAME.identifier_system", "mrn", "found 'mrn'", "an absolute URI"),
    ("tenants.NAME.laboratories.NAME.connector.type", "hl", "found 'hl'", "did you mean hl7?"),
    ("tenants.NAME.laboratories.NAME.connector.transmit_delay_s", -1, "found '-1'", "at least 0"),
    ("tenants.NAME.laboratories.NAME.connector.results", "perhaps", "found 'perhaps'", "true or false"),
    ("tenants.NAME.laboratories.NAME.connector.result_delay_s", -1, "found '-1'", "at least 0"),
    ("tenants.NAME.laboratories.NAME.connector.host", "a b", "found 'a b'", "a host's name"),
    ("tenants.NAME.laboratories.NAME.connector.port", 0, "found '0'", "at least 1"),
    ("tenants.NAME.laboratories.NAME.connector.tls", "perhaps", "found 'perhaps'", "true or false"),
    ("tenants.NAME.laboratories.NAME.connector.ca_file", "/no/such.pem", "No such file", NO_FILE),
    ("tenants.NAME.laboratories.NAME.connector.certificate", "/no/such.pem", "No such file", NO_FILE),
    ("tenants.NAME.laboratories.NAME.connector.key", "/no/such.key", "No such file", NO_FILE),
    ("tenants.NAME.laboratories.NAME.connector.timeout_s", 0, "found '0'", "above 0"),
    ("tenants.NAME.laboratories.NAME.connector.acknowledgement", "all", "found 'all'", "'any'"),
    ("tenants.NAME.laboratories.NAME.connector.message", "ORU^R01", "found 'ORU^R01'", "'OML^O21'"),
    ("tenants.NAME.laboratories.NAME.connector.version", "2.3", "found '2.3'", "write message: ORM^O01"),
    ("tenants.NAME.laboratories.NAME.connector.charset", "UTF-16", "found 'UTF-16'", "'UNICODE UTF-8'"),
    ("tenants.NAME.laboratories.NAME.connector.processing_id", "X", "found 'X'", "'P'"),
    ("tenants.NAME.laboratories.NAME.connector.sending_application", "a|b", "found 'a|b'", "delimiters"),
    ("tenants.NAME.laboratories.NAME.connector.sending_facility", "a^b", "found 'a^b'", "delimiters"),
    ("tenants.NAME.laboratories.NAME.connector.receiving_application", "ä", "found 'ä'", "ASCII"),
    ("tenants.NAME.laboratories.NAME.connector.receiving_facility", "a~b", "found 'a~b'", "delimiters"),
    ("tenants.NAME.laboratories.NAME.connector.placer_namespace", "", "found ''", "at least 1"),
    ("tenants.NAME.laboratories.NAME.connector.authorities", {"mrn": "RVB"}, "found 'mrn'", "an absolute URI"),
    ("tenants.NAME.laboratories.NAME.connector.folder", "/no/such", "/no/such is no folder", "can write to"),
    ("tenants.NAME.laboratories.NAME.give_up_s", 0, "found '0'", "above 0"),
    ("tenants.NAME.leading_indicator", "perhaps", "found 'perhaps'", "true or false"),
    ("tenants.NAME.clinical_alerts.enabled", "perhaps", "found 'perhaps'", "true or false"),
    ("tenants.NAME.clinical_alerts.enrollment", "some", "found 'some'", "all"),
    ("tenants.NAME.adt.enrollment", "some", "found 'some'", "all"),
    ("tenants.NAME.adt.lookup_on", {"A01": 1}, "found this block", "a list"),
    ("tenants.NAME.adt.assigning_authorities", ["RVB"], "found a list", "a block of keys"),
    ("tenants.NAME.active_subscription_limit", 0, "found '0'", "at least 1"),
    ("tenants.NAME.licensed_networks", "carequality", "found 'carequality'", "a list"),
    ("tenants.NAME.webhook_allow", ["10.1.0.0/8"], "found '10.1.0.0/8'", "the name of a host, an address"),
    ("clients.NAME.tenant", "NAMES", "found 'NAMES'", "did you mean NAME?"),
    ("clients.NAME.secret", {"env": "NO_SUCH_SECRET"}, "NO_SUCH_SECRET is not set", "--offline"),
    ("clients.NAME.jwks.keys", [P256], "a key that proves nothing", "P-384"),
    ("clients.NAME.jwks.file", "/no/such.json", "cannot be read", "a JWKS file"),
    ("clients.NAME.name", "a\nb", "found 'a\\nb'", "one line"),
    ("clients.NAME.uri", "engine", "found 'engine'", "an absolute URI"),
    ("clients.NAME.redirect_uris", ["/back"], "found '/back'", "an absolute https address"),
    (
        "clients.NAME.origins",
        ["https://app.example/"],
        "found 'https://app.example/'",
        "scheme, host and perhaps a port",
    ),
    ("clients.NAME.grants", ["client_credential"], "found 'client_credential'", "did you mean client_credentials?"),
    ("clients.NAME.scopes", ["system/*.* "], "found 'system/*.* '", "without blanks"),
    ("clients.NAME.role", "nurs", "found 'nurs'", "did you mean nurse?"),
    ("clients.NAME.disabled", "perhaps", "found 'perhaps'", "true or false"),
    ("clients.NAME.patient_context", "require", "found 'require'", "did you mean required?"),
    ("users.NAME.tenant", "lakeside", "found 'lakeside'", "valid here: NAME"),
    ("users.NAME.role", "doctor", "found 'doctor'", "one of"),
    ("users.NAME.password_hash", "letmein", "no argon2id hash", "adt-engine interchange password"),
    ("users.NAME.name", ["Osei"], "found a list", "a word or a text"),
    ("users.NAME.fhir_user", "osei", "found 'osei'", "such as Practitioner/osei"),
    ("users.NAME.disabled", "perhaps", "found 'perhaps'", "true or false"),
    ("stu3_path_aliases", ["R4"], "found 'R4'", "other than R4"),
    ("max_body_bytes", 10, "found '10'", "at least 1024"),
    ("request_timeout_s", 0, "found '0'", "above 0"),
    ("access_token_lifetime_s", 10**12, "found '1000", "at most"),
    ("refresh_token_lifetime_s", 0, "found '0'", "at least 1"),
    ("test_hooks", "perhaps", "found 'perhaps'", "true or false"),
    ("cursor_validity_s", 0, "found '0'", "at least 1"),
    ("rate_limit.per_client_per_minute", 0, "found '0'", "at least 1"),
    ("rate_limit.burst", 0, "found '0'", "at least 1"),
    ("jobs.at_once", 0, "found '0'", "at least 1"),
    ("jobs.at_once_per_tenant", 0, "found '0'", "at least 1"),
    ("jobs.waiting_per_tenant", 0, "found '0'", "at least 1"),
    ("cq.sync_wait_s", 51, "found '51'", "at most 50"),
    ("max_connections", 0, "found '0'", "at least 1"),
    ("drain_s", -1, "found '-1'", "at least 0"),
    ("tls.certificate", "/no/such.pem", "No such file", NO_FILE),
    ("tls.key", "/no/such.key", "No such file", NO_FILE),
    ("behind_proxy", "perhaps", "found 'perhaps'", "true or false"),
    ("webhooks.ca_bundle", "/no/such.pem", "No such file", NO_FILE),
    ("feature_flags", ["validat"], "found 'validat'", "'validate'"),
    ("auth.auto_login_user", "NAMES", "found 'NAMES'", "did you mean NAME?"),
)


RELAY: Final = {"name": "radiology", "type": "mllp", "host": "127.0.0.1", "port": 2575}
RELAY_ROWS: Final = (
    ("destinations[].name", "", "found ''", "a name of 1 to"),
    ("destinations[].type", "mlp", "found 'mlp'", "'mllp'"),
    ("destinations[].host", "ris example", "found 'ris example'", "or a host's name"),
    ("destinations[].port", 0, "found '0'", "at least 1"),
    ("destinations[].tls.ca_file", "/no/such.pem", "No such file", NO_FILE),
    ("destinations[].tls.certificate", "/no/such.pem", "No such file", NO_FILE),
    ("destinations[].tls.key", "/no/such.key", "No such file", NO_FILE),
    ("destinations[].tls.server_name", "a\nb", r"found 'a\nb'", "without control characters"),
    ("destinations[].send", "changed", "found 'changed'", "'original' or 'edited'"),
    ("destinations[].edit[].set", "MSH-5", "a plain value", "a block of keys"),
    ("destinations[].edit[].remove", "ZPI", "found 'ZPI'", "list"),
    ("destinations[].edit[].when", "a\nb", r"found 'a\nb'", "without control characters"),
    ("destinations[].control_id", "new", "found 'new'", "'keep' or 'own'"),
    ("destinations[].order", "fed", "found 'fed'", "'feed' or 'patient'"),
    ("destinations[].connections", 0, "found '0'", "at least 1"),
    ("destinations[].acknowledgement.wait_seconds", 0, "found '0'", "above 0"),
    ("destinations[].acknowledgement.on_error", "skip", "found 'skip'", "'hold'"),
    ("destinations[].acknowledgement.on_unknown", "skip", "found 'skip'", "'resend' or 'hold'"),
    ("destinations[].relay", "some", "found 'some'", "'accepted' or 'all'"),
    ("destinations[].outgoing.mapping", "nobodys", "not found in", "expected one of adt"),
    ("destinations[].outgoing.version", "2.9.9", "found '2.9.9'", "'2.5.1'"),
    ("destinations[].outgoing.charset", "UTF-9", "found 'UTF-9'", "'UNICODE UTF-8'"),
    ("destinations[].outgoing.sending_application", "A\nB", "found", "one line"),
    ("destinations[].outgoing.sending_facility", "A\nB", "found", "one line"),
    ("destinations[].outgoing.receiving_application", "A\nB", "found", "one line"),
    ("destinations[].outgoing.receiving_facility", "A\nB", "found", "one line"),
    ("destinations[].outgoing.processing_id", "X", "found 'X'", "'P', 'T' or 'D'"),
    ("destinations[].outgoing.timezone", "America/Riverbend", "America/Riverbend", "no time zone"),
    ("destinations[].outgoing.except_from", "nobody", "found 'nobody'", "a list"),
    ("destinations[].connect_seconds", 0, "found '0'", "above 0"),
    ("destinations[].retry.first_seconds", 0, "found '0'", "above 0"),
    ("destinations[].retry.max_seconds", 0, "found '0'", "above 0"),
    ("destinations[].retry.hold_after_tries", -1, "found '-1'", "at least 0"),
    ("destinations[].retry.hold_after_seconds", -1, "found '-1'", "at least 0"),
    ("destinations[].on_held", "skip", "found 'skip'", "'hold-lane' or 'continue'"),
    ("destinations[].required", "perhaps", "found 'perhaps'", "true or false"),
)


EVENTS: Final[dict[str, Any]] = {
    "channel": "registry-back",
    "listen": {"fhir": {"path": "r", "server": {"name": "record", "base_url": "https://fhir.example/R4"}}},
}


def relay_for(key: str) -> dict[str, Any]:
    """Return the channel file that a wrong value of a relay's key is written into."""
    more: dict[str, Any] = {"order": "patient"} if key.endswith("connections") else {}
    if ".edit[]" in key:
        more = {"send": "edited", "edit": [{"set": {"NAME": "RIS"}}]}
    if key.endswith(("tls.certificate", "tls.key")):
        more = {"tls": {"certificate": "/no/such.pem", "key": "/no/such.key"}}
    if "outgoing" in key:
        return EVENTS | {"destinations": [RELAY]}
    return CHANNEL | {"listen": {"http": {"path": "r"}}, "destinations": [RELAY | more]}


def placed(base: dict[str, Any], key: str, value: Any) -> tuple[str, str, int]:
    """Return a file with one value set, the path of that value, and the line where it stands; one line a key."""
    written = json.loads(json.dumps(base))
    steps: list[str | int] = [int(step) if step.isdigit() else step for step in key.replace("[]", ".0").split(".")]
    inner = written
    for step in steps[:-1]:
        inner = inner[step] if isinstance(step, int) else inner.setdefault(step, {})
    inner[steps[-1]] = value
    text = json.dumps(written, indent=1)
    source = parse(text, "")
    return text, ".".join(map(str, steps)), source.place(tuple(steps))[0]


def source_for(key: str) -> str:
    """Return the source of events of which a key is a setting."""
    if key.endswith("every_seconds"):
        return "history"
    return "subscription" if key.endswith(("endpoint", "token")) else "webhook"


def channel_for(key: str) -> dict[str, Any]:
    """Return the channel file that a wrong value of a key is written into."""
    written: dict[str, Any] = json.loads(json.dumps(CHANNEL))
    if "tls" not in key:
        del written["listen"]["mllp"]["tls"]
    if "fhir" in key:
        written["listen"] = {"fhir": EVENTS["listen"]["fhir"] | {"source": source_for(key)}}
    if key in BESIDE:
        written["destinations"][0]["auth"] = BESIDE[key][1]
    if key.startswith("filters"):
        written["filters"] = [{"rule": "test-patients", "when": "PID-5", "do": "filter"}]
    if key.endswith("send_to"):
        del written["filters"][0]["do"]
    return written


def laboratory_for(key: str) -> dict[str, Any]:
    """Return a connector to a laboratory of the kind that uses a key."""
    if key in USED["simulated"]:
        return {"type": "simulated"}
    if key == "folder":
        return {"type": "directory", "folder": "/"}
    return {"type": "hl7", "host": "lab.example", "port": 2575, "tls": True, "certificate": "/x", "key": "/x"}


def service_for(key: str) -> dict[str, Any]:
    """Return the service's file that a wrong value of a key is written into."""
    written: dict[str, Any] = json.loads(json.dumps(SERVICE))
    if "jwks" in key:
        del written["clients"]["NAME"]["secret"]
    if key.startswith("tls"):
        written["tls"] = {"certificate": "/no/such.pem", "key": "/no/such.key"}
    if key.endswith("burst"):
        written["rate_limit"] = {"per_client_per_minute": 60}
    if "connectors" in key:
        auth = {key: CREDENTIALS[key] for key in ("token_url", "client_id", "client_secret")}
        server = {"type": "fhir", "url": "https://other.example/fhir", "auth": auth}
        folder = {"type": "directory", "folder": "/"}
        of_folder = "folder" in key or "identifier" in key
        written["tenants"]["NAME"]["connectors"] = {"NAME": folder if of_folder else server}
    if "laboratories" in key:
        written["tenants"]["NAME"]["laboratories"] = {"NAME": {"connector": laboratory_for(key.rpartition(".")[2])}}
    return written


def the_one(problems: tuple[Problem, ...], path: str, line: int) -> Problem:
    """Return the problem at a path or below it, and see that it stands in the file's line or below."""
    found = [problem for problem in problems if f"{problem.path}.".startswith(f"{path}.")]
    assert found, problems
    assert found[0].line >= line
    assert found[0].column > 1
    return found[0]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no private key, and does for a password."""
    monkeypatch.setenv("ADT_ENGINE_TEST_SECRET", "swordfish")


@pytest.mark.parametrize(
    ("model", "rows"), [(Channel, CHANNEL_ROWS), (Alerting, ALERT_ROWS), (ServiceConfiguration, SERVICE_ROWS)]
)
def test_every_key_has_a_wrong_value(model: type[BaseModel], rows: tuple[tuple[str, Any, str, str], ...]) -> None:
    """A key that is added to a model needs a value that is refused here."""
    assert [key for key, *_ in rows] == [row.name for row in setting_rows(model)]


def test_every_key_of_a_relay_has_a_wrong_value() -> None:
    """A destination of another type has keys of its own."""
    assert [key for key, *_ in RELAY_ROWS] == [row.name for row in setting_rows(Relay, "destinations[].")]


@pytest.mark.parametrize(("key", "value", "found", "expected"), RELAY_ROWS, ids=[row[0] for row in RELAY_ROWS])
def test_a_wrong_value_of_a_relay(tmp_path: Path, key: str, value: Any, found: str, expected: str) -> None:
    """At its place, with what would do for a relay, and never for a FHIR server."""
    text, path, line = placed(relay_for(key), key, value)
    (tmp_path / "a.yaml").write_text(text)
    (problem,) = [one for one in examine(Files(tmp_path, None, tmp_path)).problems if one.path.startswith(path)]
    assert (problem.path, problem.line) == (path, line)
    assert found in problem.found
    assert expected in problem.expected


@pytest.mark.parametrize(("key", "value", "found", "expected"), CHANNEL_ROWS, ids=[row[0] for row in CHANNEL_ROWS])
def test_a_wrong_value_of_a_channel(tmp_path: Path, key: str, value: Any, found: str, expected: str) -> None:
    """`channels check` and the start name the value with its place, and what would do."""
    text, path, line = placed(channel_for(key), key, value)
    (tmp_path / "a.yaml").write_text(text)
    if key in {"mapping", "destinations[].mapping", "filters[].when"}:
        problems = examine(Files(tmp_path, None, tmp_path)).problems
    else:
        (looked,), problems = read_channels(tmp_path)
        problems += tuple(lacking(looked))
    problem = the_one(problems, path, line)
    assert problem.file == str(tmp_path / "a.yaml")
    assert found in problem.found
    assert expected in problem.expected
    assert "swordfish" not in str(problem)


@pytest.mark.parametrize(("key", "value", "found", "expected"), ALERT_ROWS, ids=[row[0] for row in ALERT_ROWS])
def test_a_wrong_value_of_the_alerts(tmp_path: Path, key: str, value: Any, found: str, expected: str) -> None:
    """The file beside the channels is held to the same."""
    base = {"webhook": {"url": "https://alerts.example"}} if key.startswith("webhook") else {}
    text, path, line = placed(base, key.replace("NAME", "riverbend"), value)
    (tmp_path / FILE).write_text(text)
    looked = look_at_alerting(tmp_path)
    problem = the_one((*looked.problems, *lacking(looked)), path, line)
    assert problem.file == str(tmp_path / FILE)
    assert found in problem.found
    assert expected in problem.expected


@pytest.mark.parametrize(("key", "value", "found", "expected"), SERVICE_ROWS, ids=[row[0] for row in SERVICE_ROWS])
def test_a_wrong_value_of_the_service(key: str, value: Any, found: str, expected: str) -> None:
    """The service's own file is held to the same."""
    text, path, line = placed(service_for(key), key, value)
    looked = look(parse(text, "interchange.yaml"), ServiceConfiguration)
    problem = the_one((*looked.problems, *looked.ask("unavailable")), path, line)
    assert found in problem.found
    assert expected in problem.expected
    assert "swordfish" not in str(problem)


@pytest.mark.parametrize("model", [Channel, Alerting, ServiceConfiguration])
def test_examples_of_required_keys_are_valid(model: type[BaseModel]) -> None:
    """What stands in for a wrong value of a required key makes a model, so that the rest is checked."""
    looked = look(parse("zzz: key", "a.yaml"), model)
    assert looked.value is not None
    assert all(problem.found in {"missing", "unknown key"} for problem in looked.problems)
