"""Operations on alerts, and the table of reasons."""

from typing import Any, Final

from pydantic import Field

from engine.errors import UsageError
from engine.journal.state.alerting import Alert
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import AlertNumber, Limit, Switch, Word
from engine.ops.operations.operation import Operation
from engine.ops.views.answer import Answer, Count, Time
from engine.ops.views.incident import Severity, sentence_of, severity_of
from engine.ops.views.reasons import Reason, lines, reason_of
from engine.pipeline.engine import Engine


class ListReasons(Operation[list[Reason]]):
    """Explain a reason, or all of a kind: whether it can wait until morning, and what to do next."""

    name = "reasons"
    permission = Permission.METADATA

    code: Word = Field("", description="One code; all of them without it.")
    kind: Word = Field("", description="Only codes of this kind, such as held or alert.")

    async def run(self, _engine: Any, _actor: Actor) -> list[Reason]:
        """Return the lines; UsageError where no reason is of the kind."""
        return lines(self.code, self.kind)


class AlertView(Answer, facts=True):
    """An alert with its row of the table of reasons; `sentence` says in plain words what is wrong.

    `subject` is a channel, a destination, or `engine`; `contact` whom to call about the channel.
    """

    id: Count
    kind: str
    sentence: str
    subject: str
    detail: str
    opened_at: Time
    cleared_at: Time | None
    acknowledged_at: Time | None
    acknowledged_by: str
    contact: str
    meaning: str
    can_wait: bool
    severity: Severity
    next_step: str


class ListAlerts(Operation[list[AlertView]]):
    """List open alerts, oldest first; with `all` cleared ones too, newest first."""

    name = "alerts.list"
    permission = Permission.METADATA

    all: Switch = Field(default=False, description="Include cleared alerts, newest first.")
    limit: Limit = 100

    async def run(self, engine: Engine, _actor: Actor) -> list[AlertView]:
        """Return the alerts."""
        found = await engine.alerts.latest(self.limit) if self.all else engine.alerts.open()[: self.limit]
        return [alert_view(engine, one) for one in found]


class AcknowledgeAlert(Operation[AlertView]):
    """Acknowledge an alert: somebody takes care of it; some kinds are cleared by that."""

    name = "alerts.acknowledge"
    permission = Permission.OPERATE

    alert: AlertNumber

    async def run(self, engine: Engine, actor: Actor) -> AlertView:
        """Return the alert; UsageError where no such one is open."""
        found = await engine.alerts.acknowledge(self.alert, engine.now(), actor.name)
        if found is None:
            raise UsageError(f"no alert {self.alert} is open: see `alerts list`")
        return alert_view(engine, found)


def alert_view(engine: Engine, alert: Alert) -> AlertView:
    """Return an alert as it is shown."""
    line, feed = reason_of(alert.kind), engine.feeds.get(alert.subject.partition(" ")[0])
    return AlertView.of(
        alert,
        sentence=sentence_of(alert.kind, alert.subject, alert.detail),
        contact=feed.channel.contact if feed else "",
        meaning=line.meaning,
        can_wait=line.can_wait,
        severity=severity_of(alert.kind, alert.detail),
        next_step=line.next_step,
    )


ALERTS: Final = (ListAlerts, AcknowledgeAlert, ListReasons)
