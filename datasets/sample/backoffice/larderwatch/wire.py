"""Lines that come from the ingest service and from the rules library."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from typing import Optional

PROBE_NAME = re.compile(r"[a-z0-9-]{4,16}")
SEVERITIES = ("notice", "warning", "critical")


class WireError(ValueError):
    """A line that cannot be understood."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"bad {field}: {text!r}")
        self.field = field


@dataclass(frozen=True)
class Reading:
    probe: str
    sequence: int
    taken: int
    milli_c: int
    battery: int


@dataclass(frozen=True)
class Alarm:
    probe: str
    severity: str
    opened: int
    closed: Optional[int]
    peak_milli_c: int

    @property
    def key(self) -> tuple[str, int]:
        return self.probe, self.opened


def seal_line(body: str) -> str:
    return f"{body}{binascii.crc_hqx(body.encode('ascii'), 0xFFFF):04X}"


def unseal_line(line: str, prefix: str, count: int) -> list[str]:
    """Checks the trailer and returns the fields after the prefix."""
    line = line.rstrip("\r\n")
    body, semicolon, _ = line.rpartition(";")
    if not line.isascii() or not semicolon or seal_line(body + ";") != line:
        raise WireError("trailer", line)
    found, *fields = body.split(";")
    if found != prefix:
        raise WireError("prefix", found)
    if len(fields) != count:
        raise WireError("field count", str(len(fields)))
    return fields


def _bounded(field: str, text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise WireError(field, text) from None
    if not low <= value <= high:
        raise WireError(field, text)
    return value


def _probe(text: str) -> str:
    if not PROBE_NAME.fullmatch(text):
        raise WireError("probe", text)
    return text


def parse_reading(line: str) -> Reading:
    probe, sequence, taken, milli, battery = unseal_line(line, "LW2", 5)
    return Reading(
        _probe(probe),
        _bounded("sequence", sequence, 0, 65535),
        _bounded("taken", taken, 0, 2**62),
        _bounded("millidegrees", milli, -(2**31), 2**31 - 1),
        _bounded("battery", battery, 0, 100),
    )


def parse_alarm(line: str) -> Alarm:
    probe, severity, opened, closed, peak = unseal_line(line, "AL1", 5)
    if severity not in SEVERITIES:
        raise WireError("severity", severity)
    return Alarm(
        _probe(probe),
        severity,
        _bounded("opened", opened, 0, 2**62),
        None if closed == "-" else _bounded("closed", closed, 0, 2**62),
        _bounded("peak", peak, -(2**31), 2**31 - 1),
    )


def alarm_line(alarm: Alarm) -> str:
    closed = "-" if alarm.closed is None else alarm.closed
    return seal_line(
        f"AL1;{alarm.probe};{alarm.severity};{alarm.opened};{closed};{alarm.peak_milli_c};"
    )
