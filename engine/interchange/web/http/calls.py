"""One FHIR call from request to answer: its timeout, unexpected errors, logs and access log."""

import asyncio
import re
from dataclasses import replace
from hashlib import sha256
from time import perf_counter
from typing import Final

from engine.errors import place_of
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.store.access import PENDING
from engine.interchange.store.backend import set_deadline
from engine.interchange.store.writer import StoreAwayError, StoreBusyError, StoreFailedError, StoreInDoubtError
from engine.interchange.web.http.call import BUNDLES, WITH_BODY, HttpCall
from engine.interchange.web.http.charts import answer_chart
from engine.interchange.web.http.fhir_endpoint import answer_call, refused
from engine.interchange.web.http.hooks import Hooks
from engine.interchange.web.http.meter import Meter
from engine.interchange.web.http.recording import access_of
from engine.telemetry import logger

# Request ids that cannot hold patient data: those made here, and UUIDs.
OPAQUE: Final = re.compile(r"[0-9a-f]{16}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
TEXTS: Final = {
    Category.FAULT: "The service had an internal error.",
    Category.BUSY: "The database cannot be reached, or is busy; nothing was changed. Try again soon.",
    Category.SLOW_BODY: "The body did not arrive in time.",
    Category.TIMEOUT: "The request took too long; whether it was carried out is not known.",
}


class Calls:
    """Answers FHIR calls."""

    def __init__(self, service: Service, hooks: Hooks | None, meter: Meter) -> None:
        self._service = service
        self._hooks = hooks
        self._meter = meter
        self._store_failure_logged = False

    async def answer(self, call: HttpCall, request_id: str) -> HttpAnswer:
        """Return the answer to a call; raises nothing but ConnectionError, if the client is gone."""
        version = FhirVersion.STU3 if call.base == FhirVersion.STU3 else FhirVersion.R4
        started = perf_counter()
        PENDING.set(None)
        self._meter.in_flight += 1
        try:
            answer = await self._in_time(call, version)
        finally:
            self._meter.in_flight -= 1
        # After 'Expect: 100-continue' the client may or may not send its body: close the connection.
        if not call.body.whole and (answer.status == Category.SLOW_BODY.status or "expect" in call.headers):
            answer = replace(answer, headers=(*answer.headers, ("connection", "close")))
        if answer.status >= 500:
            self._tell(call, answer.status, request_id)
        self._meter.count(call, call.base, answer.status, perf_counter() - started)
        return answer

    async def _in_time(self, call: HttpCall, version: FhirVersion) -> HttpAnswer:
        """Return the answer once its row of the access log is on disk; 500 if it cannot be written."""
        limit = self._service.configuration.request_timeout_s
        set_deadline(limit)
        answer: HttpAnswer | None = None
        try:
            async with asyncio.timeout(limit):
                answer = await self._carry_out(call)
                await self._record(call, answer)
                return answer
        except ConnectionError:
            raise
        except (TimeoutError, asyncio.CancelledError) as error:
            waits_for_body = call.method in WITH_BODY and call.interaction is not None and not call.body.whole
            failed = self._failed(call, Category.SLOW_BODY if waits_for_body else Category.TIMEOUT, version, error)
        except StoreInDoubtError as error:
            failed = self._failed(call, Category.TIMEOUT, version, error)
        except StoreBusyError as error:
            failed = self._failed(call, Category.BUSY, version, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an OperationOutcome without its text
            failed = self._failed(call, Category.FAULT, version, error)
        if answer is None:
            await self._record(call, failed)
        return failed

    async def _record(self, call: HttpCall, answer: HttpAnswer) -> None:
        """Wait until the row of a call is on disk, if it needs one.

        The row of a write is in the commit of the write. A call that is unauthenticated or over its rate has no row;
        one with an expired token names the token's principal. Answers of 500 and above, and to a body that timed out,
        show no data and do not wait for their row.
        """
        pending = PENDING.get()
        # A Bundle has its own row in addition to those of its entries, with the patients that its answer shows.
        alone = call.interaction is None or call.interaction.code not in BUNDLES
        kept = pending is not None and pending.kept and alone and answer.status < Category.STRUCTURE.status
        principal = call.principal or call.former
        if principal is None or call.interaction is None or call.refusal is Category.THROTTLED or kept:
            return
        rows = (*call.rows, access_of(self._service, call, principal, call.interaction, answer))
        if answer.status >= Category.FAULT.status or call.refusal is Category.SLOW_BODY:
            self._service.recorder.note(rows)
        else:
            await self._service.recorder.record(rows)

    async def _carry_out(self, call: HttpCall) -> HttpAnswer:
        answering = answer_chart if call.chart else answer_call
        fault = self._hooks.match(call.method, call.address) if self._hooks is not None else None
        if fault is None:
            return await answering(self._service, call)
        await fault.apply()
        answer = await answering(self._service, call)
        fault.apply_after_commit()
        return answer

    def _failed(self, call: HttpCall, category: Category, version: FhirVersion, error: BaseException) -> HttpAnswer:
        call.refusal = category
        call.error = error
        answer = refused(self._service, refuse(category, TEXTS[category]), version)
        again = (("retry-after", "1"),) if category is Category.BUSY else ()
        return replace(answer, headers=(*answer.headers, *again))

    def _tell(self, call: HttpCall, status: int, request_id: str) -> None:
        interaction = call.interaction
        code = f"{interaction.type} {interaction.code}" if interaction else "none"
        error = call.error
        fields = {"error": type(error).__name__, "file": place_of(error)} if error is not None else {}
        logger().error("request failed", request=loggable(request_id), code=code, status=status, **fields)
        logged = self._store_failure_logged
        if isinstance(error, StoreFailedError) and not (isinstance(error, StoreAwayError) or logged):
            self._store_failure_logged = True
            cause = error.__cause__
            reason = getattr(cause, "sqlite_errorname", "") or type(cause).__name__
            logger().error("store failed", reason=reason, error=type(cause).__name__)


def loggable(request_id: str) -> str:
    """Return a request id as logged: a client's own id is replaced by the start of its SHA-256."""
    if OPAQUE.fullmatch(request_id):
        return request_id
    return f"sha256:{sha256(request_id.encode()).hexdigest()[:16]}"
