"""Readings and alarms in one SQLite file."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Iterable, Iterator

from .wire import Alarm, Reading

SCHEMA = """
create table if not exists reading (
    probe text not null, taken integer not null, sequence integer not null,
    milli_c integer not null, battery integer not null,
    primary key (probe, taken, sequence)
) without rowid;
create table if not exists alarm (
    cursor integer primary key autoincrement,
    probe text not null, severity text not null, opened integer not null,
    closed integer, peak_milli_c integer not null
);
"""

DAY = 86_400


@dataclass(frozen=True)
class RetentionPlan:
    """What a sweep would do, so that it can be shown before it is done."""

    thin_before: int
    drop_before: int
    protected: frozenset[str]


class ReadingStore:
    def __init__(self, path: str = ":memory:") -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.executescript(SCHEMA)

    def append_readings(self, readings: Iterable[Reading]) -> int:
        """Returns how many were new."""
        before = self._db.total_changes
        with self._db:
            self._db.executemany(
                "insert or ignore into reading values (?, ?, ?, ?, ?)",
                ((r.probe, r.taken, r.sequence, r.milli_c, r.battery) for r in readings),
            )
        return self._db.total_changes - before

    def window(self, probe: str, start: int, end: int) -> Iterator[Reading]:
        rows = self._db.execute(
            "select probe, sequence, taken, milli_c, battery from reading"
            " where probe = ? and taken >= ? and taken < ? order by taken",
            (probe, start, end),
        )
        return (Reading(*row) for row in rows)

    def probes(self) -> list[str]:
        return [p for (p,) in self._db.execute("select distinct probe from reading order by 1")]

    def record_alarm(self, alarm: Alarm) -> int:
        with self._db:
            done = self._db.execute(
                "insert into alarm (probe, severity, opened, closed, peak_milli_c)"
                " values (?, ?, ?, ?, ?)",
                (alarm.probe, alarm.severity, alarm.opened, alarm.closed, alarm.peak_milli_c),
            )
        return int(done.lastrowid or 0)

    def alarms_after(self, cursor: int, limit: int = 100) -> list[tuple[int, Alarm]]:
        rows = self._db.execute(
            "select cursor, probe, severity, opened, closed, peak_milli_c from alarm"
            " where cursor > ? order by cursor limit ?",
            (cursor, limit),
        )
        return [(number, Alarm(*rest)) for number, *rest in rows]

    def plan_retention(self, now: int, full_days: int, total_days: int) -> RetentionPlan:
        if full_days > total_days:
            raise ValueError("readings cannot be thinned after they were dropped")
        open_probes = self._db.execute(
            "select probe from alarm group by probe, opened having max(closed) is null"
        )
        return RetentionPlan(
            thin_before=now - full_days * DAY,
            drop_before=now - total_days * DAY,
            protected=frozenset(p for (p,) in open_probes),
        )

    def sweep(self, plan: RetentionPlan) -> int:
        """Keeps one reading per hour in the middle span and none before it."""
        removed = 0
        with self._db:
            for probe in self.probes():
                if probe in plan.protected:
                    continue
                removed += self._db.execute(
                    "delete from reading where probe = ? and taken < ?",
                    (probe, plan.drop_before),
                ).rowcount
                removed += self._thin(probe, plan.thin_before)
        return removed

    def _thin(self, probe: str, before: int) -> int:
        return self._db.execute(
            "delete from reading where probe = ? and taken < ? and taken not in ("
            " select min(taken) from reading where probe = ? group by taken / 3600)",
            (probe, before, probe),
        ).rowcount
