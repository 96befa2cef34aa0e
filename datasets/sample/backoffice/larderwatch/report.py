"""The daily sheet for the inspector."""

from __future__ import annotations

import configparser
import csv
import io
from dataclasses import dataclass
from typing import Iterable

from .calibration import Calibrator
from .flags import FlagSet
from .store import DAY, ReadingStore
from .wire import Reading

GAP_SECONDS = 1800


@dataclass(frozen=True)
class Band:
    low: int
    high: int

    def holds(self, milli_c: int) -> bool:
        return self.low <= milli_c <= self.high


@dataclass(frozen=True)
class SheetRow:
    probe: str
    lowest: int
    highest: int
    minutes_outside: int
    gaps: tuple[tuple[int, int], ...]

    @property
    def verdict(self) -> str:
        if self.gaps:
            return "incomplete"
        return "pass" if self.minutes_outside == 0 else "fail"


def load_bands(text: str) -> dict[str, Band]:
    parser = configparser.ConfigParser(comment_prefixes=("#",))
    parser.read_string(text)
    bands = {}
    for probe, profile in parser["assign"].items():
        section = parser[profile]
        bands[probe] = Band(section.getint("low"), section.getint("high"))
    return bands


def build_daily_sheet(
    store: ReadingStore,
    bands: dict[str, Band],
    day_start: int,
    flags: FlagSet,
    calibrator: Calibrator,
) -> list[SheetRow]:
    rows = []
    for probe in store.probes():
        if probe not in bands:
            continue
        readings = list(store.window(probe, day_start, day_start + DAY))
        if flags.is_enabled("calibrated_reports", probe):
            readings = [recalibrate(calibrator, r) for r in readings]
        if readings:
            rows.append(summarise(probe, bands[probe], readings))
    return rows


def recalibrate(calibrator: Calibrator, reading: Reading) -> Reading:
    value = calibrator.corrected(reading.probe, reading.taken, reading.milli_c)
    return Reading(reading.probe, reading.sequence, reading.taken, value, reading.battery)


def summarise(probe: str, band: Band, readings: list[Reading]) -> SheetRow:
    values = [r.milli_c for r in readings]
    return SheetRow(
        probe, min(values), max(values), outside_minutes(band, readings), tuple(find_gaps(readings))
    )


def outside_minutes(band: Band, readings: list[Reading]) -> int:
    """A reading counts until the next one, but not across a gap."""
    seconds = 0
    for current, following in zip(readings, readings[1:]):
        span = following.taken - current.taken
        if span <= GAP_SECONDS and not band.holds(current.milli_c):
            seconds += span
    return seconds // 60


def find_gaps(readings: list[Reading]) -> Iterable[tuple[int, int]]:
    for current, following in zip(readings, readings[1:]):
        if following.taken - current.taken > GAP_SECONDS:
            yield current.taken, following.taken


def merge_adjacent_gaps(gaps: Iterable[tuple[int, int]], slack: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(gaps):
        if merged and start - merged[-1][1] <= slack:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def render_csv(rows: Iterable[SheetRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["probe", "lowest", "highest", "minutes outside", "verdict"])
    for row in rows:
        writer.writerow(
            [row.probe, degrees(row.lowest), degrees(row.highest), row.minutes_outside, row.verdict]
        )
    return out.getvalue()


def render_text(rows: Iterable[SheetRow]) -> str:
    return "\n".join(
        f"{row.probe:<16} {degrees(row.lowest):>7} {degrees(row.highest):>7} {row.verdict}"
        for row in rows
    )


def degrees(milli_c: int) -> str:
    return f"{milli_c / 1000:.1f}"
