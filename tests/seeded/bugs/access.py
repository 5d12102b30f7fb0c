"""Bugs in who reads and writes what in the service: tokens, roles, the endpoint and Bundles."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Code, Drop, Invert, Swap, Text, Unwrap, Value

BUGS: Final = (
    Bug(
        "a client uses another one's refresh token",
        "engine.interchange.tokens.vault:Vault.exchange.work",
        Drop("token.client != client"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "the reuse of a copied refresh token is not noticed",
        "engine.interchange.tokens.vault:Vault.exchange.work",
        Drop("self.end(...)"),
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a revoked token still opens the service",
        "engine.interchange.tokens.vault:Vault.find",
        Drop("known.revoked"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "an expired token still opens the service",
        "engine.interchange.web.http.admission:_authenticate",
        Value("service.vault.seconds_left(...) <= 0", "False"),
        (
            "interchange/test_access.py",
            "interchange/test_oauth.py",
        ),
    ),
    Bug(
        "a refresh token opens the service",
        "engine.interchange.web.http.admission:_authenticate",
        Drop("found.kind != TokenKind.ACCESS"),
        (
            "interchange/test_access.py",
            "interchange/test_oauth.py",
        ),
    ),
    Bug(
        "an authorization code can be used twice",
        "engine.interchange.tokens.code:AuthorizationCodes.exchange.work",
        Drop("connection.execute(...)"),
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a stolen code is exchanged without its verifier",
        "engine.interchange.tokens.code:fits",
        Value("not given.challenge and (not asked.verifier)", "True"),
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a code goes to another address than the one allowed",
        "engine.interchange.tokens.code:fits",
        Value("given.redirect_uri != asked.redirect_uri", "False"),
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "an assertion made for another server is accepted",
        "engine.interchange.tokens.assertion:verify",
        Code("claims['aud'] not in (expected.audience, [expected.audience])", "not claims['aud']"),
        ("interchange/test_assertion.py",),
    ),
    Bug(
        "an assertion can be used twice",
        "engine.interchange.tokens.assertion:spend.work",
        Value("connection.execute(...).fetchall()", "True"),
        ("interchange/test_assertion.py",),
    ),
    Bug(
        "a client with the right to read may write",
        "engine.interchange.tokens.scope:allows",
        Code("letters(access) <= frozenset().union(*held)", "any(held)"),
        (
            "interchange/test_roles.py",
            "interchange/test_walk.py",
        ),
    ),
    Bug(
        "a client is granted more than it is registered for",
        "engine.interchange.tokens.scope:covers",
        Drop("asked.access <= given.access"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "a nurse may prescribe",
        "engine.interchange.tokens.role:ALLOWED",
        Drop("{Role.NURSE}"),
        ("interchange/test_roles.py",),
    ),
    Bug(
        "a Bundle deletes what it has just written",
        "engine.interchange.web.bundles.plan:PHASES",
        Value("{'DELETE': 0, 'POST': 1, 'PUT': 2, 'PATCH': 2}", "{'DELETE': 2, 'POST': 1, 'PUT': 0, 'PATCH': 0}"),
        ("interchange/test_bundle_model.py",),
    ),
    Bug(
        "a transaction that is refused keeps what it wrote so far",
        "engine.interchange.web.bundles.transaction:_carry_out",
        Code(
            "answer = run.answer(meant, target)",
            "try:\n"
            "    answer = run.answer(meant, target)\n"
            "except RefusedError:\n"
            "    answer = HttpAnswer(200, b'', (('location', f'/{target}'),))",
        ),
        (
            "interchange/test_bundle_model.py",
            "interchange/test_bundles.py",
        ),
    ),
    Bug(
        "an entry refers to a number that nobody has",
        "engine.interchange.web.bundles.transaction:_resolved",
        Drop("targets.get(...)"),
        (
            "interchange/test_bundle_references.py",
            "interchange/test_bundles.py",
        ),
    ),
    Bug(
        "one patient's token sees another's data in the answer to a write",
        "engine.interchange.tokens.role:may_see",
        Invert("not own"),
        ("interchange/test_patient_context.py",),
    ),
    Bug(
        "a refused look at a chart is missing from its patient's access log",
        "engine.interchange.web.http.fhir_endpoint:_interact",
        Code("await name_refused(service, call, address.version)\nraise", "raise"),
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "a refused look at a resource of a chart is missing from its patient's access log",
        "engine.interchange.web.http.recording:access_of",
        Value("reached(...)", "()"),
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "attempts with an expired token leave no trace",
        "engine.interchange.web.http.calls:Calls._record",
        Drop("call.former"),
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "a refusal within a batch leaves no trace",
        "engine.interchange.web.bundles.operation:_alone",
        Code("log.rows.append(log.row(step, interaction, resource_id, answer))\nreturn answer", "return answer"),
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "a deletion by a transaction is missing from its patient's access log",
        "engine.interchange.web.bundles.transaction:_Run.answer",
        Drop("self.transaction.touched", of="self.log.row(...)"),
        ("interchange/test_access_log.py",),
    ),
    Bug(
        "a scope that was taken from a client opens charts until its tokens expire",
        "engine.interchange.tokens.account:still_granted",
        Unwrap("tuple(...)"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "a disabled person still reads",
        "engine.interchange.tokens.account:holds",
        Drop("not user.disabled"),
        ("interchange/test_sign_in.py",),
    ),
    Bug(
        "a disabled client still reads",
        "engine.interchange.tokens.account:holds",
        Drop("client.disabled"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "a client that may no longer refresh its tokens does",
        "engine.interchange.web.oauth.endpoint:_refresh_token",
        Drop("_may(...)"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "the reuse of a stolen refresh token is not noticed once the used one was revoked",
        "engine.interchange.tokens.vault:REVOKE",
        Text("digest=? AND revoked=0", "digest=?"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "a revocation that names two tokens revokes the wrong one",
        "engine.interchange.web.http.tokens:_parameter",
        Swap("1", "2"),
        ("interchange/test_oauth.py",),
    ),
    Bug(
        "one patient's token writes into another's record through a Bundle",
        "engine.interchange.web.bundles.plan:carried_out",
        Code("plan.admission.answer(service, plan.request)", "plan.interaction.run(service, plan.request)"),
        ("interchange/test_context_walk.py",),
    ),
    Bug(
        "a role without the right writes through a Bundle",
        "engine.interchange.rest.access:admit",
        Drop("authorise(...)"),
        ("interchange/test_walk.py",),
    ),
    Bug(
        "a NUL in a text is reported as invalid JSON, and the sender looks for the wrong fault",
        "engine.interchange.web.http.fhir_endpoint:_read",
        Swap("INVALID", "STRUCTURE"),
        ("interchange/test_limits.py",),
    ),
)
