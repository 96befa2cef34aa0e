"""Tells people about alarms, and tells others when nobody reacts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Protocol

from .flags import FlagSet
from .wire import Alarm

LADDER = ("cook", "shift-lead", "manager")
STEP_SECONDS = {"notice": 3600, "warning": 1200, "critical": 300}


class ChannelDown(RuntimeError):
    """The message was not taken; it may be tried again."""


class Channel(Protocol):
    def send(self, role: str, text: str) -> None: ...


@dataclass
class Case:
    """One alarm on its way up the ladder."""

    alarm: Alarm
    step: int
    told_at: int
    acknowledged_by: str | None = None
    log: list[str] = field(default_factory=list)


class Dispatcher:
    def __init__(
        self,
        channel: Channel,
        flags: FlagSet,
        local_hour: Callable[[int], int],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._channel = channel
        self._flags = flags
        self._local_hour = local_hour
        self._pause = pause
        self._cases: dict[tuple[str, int], Case] = {}
        self._held: list[Alarm] = []

    def announce(self, alarm: Alarm, now: int) -> None:
        if alarm.closed is not None:
            self._cases.pop(alarm.key, None)
            return
        if self._must_wait(alarm, now):
            self._held.append(alarm)
            return
        known = self._cases.get(alarm.key)
        step = known.step if known else 0
        case = Case(alarm, step, now, log=known.log if known else [])
        self._cases[alarm.key] = case
        self._tell(case)

    def acknowledge(self, key: tuple[str, int], person: str) -> bool:
        case = self._cases.get(key)
        if case is None or case.acknowledged_by:
            return False
        case.acknowledged_by = person
        case.log.append(f"taken by {person}")
        return True

    def escalate_overdue(self, now: int) -> int:
        moved = 0
        for case in self._cases.values():
            patience = STEP_SECONDS[case.alarm.severity]
            if case.acknowledged_by or now - case.told_at < patience:
                continue
            if case.step + 1 < len(self._rungs()):
                case.step += 1
                case.told_at = now
                self._tell(case)
                moved += 1
        return moved

    def release_held(self, now: int) -> int:
        waiting, self._held = self._held, []
        for alarm in waiting:
            self.announce(alarm, now)
        return len(waiting) - len(self._held)

    def _rungs(self) -> tuple[str, ...]:
        return LADDER + ("owner",) if self._flags.is_enabled("escalate_to_owner") else LADDER

    def _must_wait(self, alarm: Alarm, now: int) -> bool:
        if alarm.severity != "notice" or not self._flags.is_enabled("quiet_hours"):
            return False
        hour = self._local_hour(now)
        return hour >= 22 or hour < 6

    def _tell(self, case: Case) -> None:
        role = self._rungs()[case.step]
        deliver_with_retries(self._channel, role, compose_text(case.alarm), self._pause)
        case.log.append(f"told {role}")


def compose_text(alarm: Alarm) -> str:
    return f"{alarm.severity.upper()}: {alarm.probe} reached {alarm.peak_milli_c / 1000:.1f} C"


def deliver_with_retries(
    channel: Channel, role: str, text: str, pause: Callable[[float], None], attempts: int = 3
) -> None:
    for attempt in range(1, attempts + 1):
        try:
            channel.send(role, text)
            return
        except ChannelDown:
            if attempt == attempts:
                raise
            pause(2.0**attempt)
