"""Bugs in operations: pages, commands, passwords and the audit trail."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Code, Drop, Swap, Text, Value

BUGS: Final = (
    Bug(
        "the last value of a repeated key is carried out, which may be the wrong one",
        "engine.ops.operations.operation:_unique",
        Drop("raise KeyTwiceError"),
        ("ops/web/test_api.py",),
    ),
    Bug(
        "a missing journal is begun anew, and nobody learns what was lost",
        "engine.ops.cli.run:run",
        Drop("refuse_vanished(...)"),
        ("ops/cli/running/test_run.py",),
    ),
    Bug(
        "second factors stop working after a start with another key, and nobody knows why",
        "engine.ops.access.keys:keys_of",
        Value("mark and mark != keys.mark and (not accept_new)", "False"),
        ("ops/cli/running/test_run.py",),
    ),
    Bug(
        "an edited message is read in another character set than that of its channel",
        "engine.ops.cli.messages.edits:_message",
        Drop("ask(...).charset"),
        ("ops/cli/messages/test_replays.py",),
    ),
    Bug(
        "values are shown in another character set than that of their channel",
        "engine.ops.views.unmapped:_standing",
        Drop("charset"),
        ("ops/views/test_counts.py",),
    ),
    Bug(
        "nobody watches the certificate of the administration pages",
        "engine.ops.cli.surfaces:surfaces",
        Drop("where.certificate"),
        ("ops/web/test_server.py",),
    ),
    Bug(
        "an operator's act is recorded only after it is done",
        "engine.ops.operations.runner:Operations.perform",
        Code(
            "row = await self._trail.ask(actor, operation.name, given, operation.marks())\n"
            "try:\n"
            "    if operation.permission is Permission.OPERATE:\n"
            "        fault.point('F19')\n"
            "    return await operation.parse(given, written=written).run(self._engine, actor)\n"
            "except AdtEngineError as error:\n"
            "    await self._trail.end(row, actor, operation.name, error, AuditOutcome.REFUSED)\n"
            "    raise\n"
            "except Exception as error:\n"
            "    await self._trail.end(row, actor, operation.name, error, AuditOutcome.FAILED)\n"
            "    raise",
            "row = 0\n"
            "try:\n"
            "    if operation.permission is Permission.OPERATE:\n"
            "        fault.point('F19')\n"
            "    done = await operation.parse(given, written=written).run(self._engine, actor)\n"
            "    await self._trail.ask(actor, operation.name, given, operation.marks())\n"
            "    return done\n"
            "except AdtEngineError as error:\n"
            "    await self._trail.end(row, actor, operation.name, error, AuditOutcome.REFUSED)\n"
            "    raise\n"
            "except Exception as error:\n"
            "    await self._trail.end(row, actor, operation.name, error, AuditOutcome.FAILED)\n"
            "    raise",
        ),
        ("ops/operations",),
    ),
    Bug(
        "the command to discard an entry releases it",
        "engine.ops.cli.commands:MESSAGES",
        Text("engine.ops.cli.messages.edits:discard", "engine.ops.cli.messages.edits:release"),
        ("ops/terminal/test_commands.py",),
    ),
    Bug(
        "a refused operation leaves no trace",
        "engine.ops.operations.runner:Operations.perform",
        Drop("self._trail.refuse(...)"),
        ("ops/operations",),
    ),
    Bug(
        "a page of another site replays messages in an operator's name",
        "engine.ops.web.auth_middleware:AuthMiddleware._take",
        Drop("not self.context.access.keys.is_csrf(...)"),
        ("ops/web/test_http.py",),
    ),
    Bug(
        "a form of another site is accepted",
        "engine.ops.web.origin:check_origin",
        Value("site != 'same-origin'", "False"),
        ("ops/web/test_origin.py",),
    ),
    Bug(
        "a viewer opens administrators' pages",
        "engine.ops.web.auth_middleware:AuthMiddleware.answer",
        Code("not call.may(self.route.needs)", "call.actor is None"),
        (
            "ops/web/test_http.py",
            "ops/web/test_flows.py",
            "ops/web/test_hostile.py",
        ),
    ),
    Bug(
        "an abandoned session goes on for days",
        "engine.ops.access.access:Access._live",
        Drop("now - row.seen_at > IDLE"),
        ("ops/access/test_access.py",),
    ),
    Bug(
        "a revoked API token still works",
        "engine.ops.access.attempts:Attempts.bearer",
        Drop("row.revoked_at is not None"),
        (
            "ops/access/test_access.py",
            "ops/access/test_administration.py",
        ),
    ),
    Bug(
        "a one-time code can be used twice",
        "engine.ops.access.entering:_is_good",
        Drop("not step or accounts.use_step(...)"),
        (
            "ops/access/test_access.py",
            "ops/access/test_totp.py",
        ),
    ),
    Bug(
        "a second factor is not asked for",
        "engine.ops.access.entering:_is_good",
        Value("found is not None", "True"),
        ("ops/access/test_access.py",),
    ),
    Bug(
        "old sessions survive a change of password",
        "engine.ops.access.entering:enter",
        Drop("sessions.end_all(...)"),
        ("ops/access/test_access.py",),
    ),
    Bug(
        "passwords can be guessed without limit",
        "engine.security.throttle:_next",
        Swap("0", "1000000"),
        ("security/test_throttle.py",),
    ),
    Bug(
        "a token of one channel reads another one's messages",
        "engine.ops.operations.runner:admit",
        Drop("given.get(...) not in actor.channels"),
        (
            "ops/operations",
            "ops/web/test_api.py",
        ),
    ),
    Bug(
        "patients' messages are discarded without the password",
        "engine.ops.operations.runner:admit",
        Drop("operation.confirm is Confirm.STEP_UP"),
        (
            "ops/operations",
            "ops/web/test_flows.py",
        ),
    ),
    Bug(
        "an operation that everybody may use shows a field that nobody marked",
        "engine.ops.operations.operation:Operation.__pydantic_init_subclass__",
        Code("cls.permission not in AUDITED", "cls.permission is Permission.SEND"),
        ("ops/operations/test_operation.py",),
    ),
    Bug(
        "a field that is added to an answer is shown to everybody",
        "engine.ops.views.answer:Answer.__init_subclass__",
        Value("facts", "True"),
        ("ops/operations/test_operation.py",),
    ),
    Bug(
        "the audit trail keeps what a field is not marked for",
        "engine.ops.audit.trail:_kept",
        Code("mark not in {Audited.VALUE, Audited.ENTRIES}", "mark is Audited.PATIENT"),
        ("ops/operations",),
    ),
)
