"""Sessions over any course of events agree with a model of them that a reader can follow."""

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from engine.journal.access import accounts
from engine.journal.access.accounts import AccountState
from engine.journal.access.audited import AuditReader
from engine.ops.access.entering import MOST_SESSIONS, Session
from tests.ops.access.gate import HERE, PASSWORD, Gate
from tests.tiers import trials

NAMES = ("ann", "bob")
IDLE, ABSOLUTE, LAG = timedelta(minutes=15), timedelta(hours=12), timedelta(seconds=30)


class Model:
    """What is known of one session: whose, since when, and when it was last seen (at the latest, and written)."""

    def __init__(self, name: str, began_at: datetime) -> None:
        self.name = name
        self.began_at = began_at
        self.seen_at = began_at

    def is_good(self, now: datetime) -> bool:
        """Say whether it is neither idle nor too old."""
        return now - self.seen_at <= IDLE and now - self.began_at <= ABSOLUTE


class Lives(RuleBasedStateMachine):
    """Two people log in, go on, idle, log out, change passwords; an administrator disables; the engine restarts."""

    cookies = Bundle("cookies")

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.gate = Gate(Path(folder))
        self.alive: dict[str, Model] = {}
        self.passwords = dict.fromkeys(NAMES, PASSWORD)
        self.enabled = dict.fromkeys(NAMES, True)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something on the loop of this life."""
        return self._runner.run(work)

    @initialize()
    def make(self) -> None:
        """Make two accounts."""
        self.run(self.gate.open())
        for name in NAMES:
            self.run(self.gate.account(name))

    @rule(target=cookies, name=st.sampled_from(NAMES), right=st.booleans())
    def log_in(self, name: str, right: bool) -> Any:
        """Log in with the right password or a wrong one; never an eleventh time, as ten sessions are kept."""
        right = right and sum(model.name == name for model in self.alive.values()) < MOST_SESSIONS
        typed = self.passwords[name] if right else "not the password at all"
        found = self.run(self.gate.access.log_in(name, typed, "", f"{HERE}{len(self.alive)}"))
        if not (right and self.enabled[name]):
            assert not isinstance(found, Session)
            return multiple()
        if not isinstance(found, Session):  # throttled after many wrong ones
            return multiple()
        self.alive[found.cookie] = Model(name, self.gate.now)
        return found.cookie

    @rule(cookie=cookies, touch=st.booleans())
    def look(self, cookie: str, touch: bool) -> None:
        """Use a session, or let a page ask by itself."""
        actor = self.run(self.gate.access.session_of(cookie, touch=touch))
        model = self._model(cookie)
        assert (actor is not None) == (model is not None)
        if model is not None and actor is not None:
            assert actor.name == model.name
            if touch and self.gate.now - model.seen_at >= LAG:
                model.seen_at = self.gate.now

    @rule(minutes=st.sampled_from([0.2, 1, 5, 10, 14, 16, 120]))
    def wait(self, minutes: float) -> None:
        """Let time pass."""
        self.gate.later(minutes=minutes)

    @rule(cookie=cookies)
    def log_out(self, cookie: str) -> None:
        """End a session, or one that has ended."""
        self.run(self.gate.access.log_out(cookie))
        self.alive.pop(cookie, None)

    @rule(target=cookies, cookie=cookies)
    def confirm(self, cookie: str) -> Any:
        """Type the password again: the session goes on under another cookie, and ends when it would have."""
        model = self._model(cookie)
        typed = self.passwords[model.name] if model else PASSWORD
        found = self.run(self.gate.access.confirm(cookie, typed, "", HERE))
        if model is None:
            assert not isinstance(found, Session)
        if model is None or not isinstance(found, Session):
            return multiple()
        del self.alive[cookie]
        self.alive[found.cookie] = Model(model.name, model.began_at)
        self.alive[found.cookie].seen_at = self.gate.now
        return found.cookie

    @rule(target=cookies, cookie=cookies, number=st.integers(0, 9))
    def change(self, cookie: str, number: int) -> Any:
        """Change the password: every session of the account ends but the new one."""
        model = self._model(cookie)
        typed, new = (self.passwords[model.name] if model else PASSWORD), f"seven grey geese {number} under salem"
        found = self.run(self.gate.access.change_password(cookie, typed, new, HERE))
        if model is None:
            assert not isinstance(found, Session)
        if model is None or not isinstance(found, Session):
            return multiple()
        self.passwords[model.name] = new
        self._end(model.name)
        self.alive[found.cookie] = Model(model.name, model.began_at)
        self.alive[found.cookie].seen_at = self.gate.now
        return found.cookie

    @rule(name=st.sampled_from(NAMES), enabled=st.booleans())
    def enable(self, name: str, enabled: bool) -> None:
        """Disable or enable an account; sessions are hidden as long as it is disabled."""
        state = AccountState.ACTIVE if enabled else AccountState.DISABLED
        self.run(self.gate.journal.write(partial(accounts.set_state, name=name, state=state)))
        self.enabled[name] = enabled

    @rule()
    def restart(self) -> None:
        """Stop and start the engine."""
        self.run(self.gate.close())
        self.run(self.gate.open())

    @invariant()
    def the_trail_holds(self) -> None:
        """Whatever happened, the chain is whole."""
        if hasattr(self.gate, "journal"):
            with AuditReader(self.gate.folder) as reader:
                assert reader.verify().faults == ()

    def teardown(self) -> None:
        """Close the journal and the loop."""
        if hasattr(self.gate, "journal"):
            self.run(self.gate.close())
        self._stack.close()

    def _model(self, cookie: str) -> Model | None:
        model = self.alive.get(cookie)
        return model if model is not None and self.enabled[model.name] and model.is_good(self.gate.now) else None

    def _end(self, name: str) -> None:
        self.alive = {cookie: model for cookie, model in self.alive.items() if model.name != name}


Lives.TestCase.settings = settings(
    max_examples=trials(25), stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLives = pytest.mark.property(Lives.TestCase)
