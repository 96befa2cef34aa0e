"""Corrections from the certificates of the yearly comparison."""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from dataclasses import dataclass

YEAR = 365 * 86_400


class CertificateExpired(LookupError):
    def __init__(self, probe: str, issued: int) -> None:
        super().__init__(f"certificate of {probe} from {issued} is out of date")
        self.probe = probe


@dataclass(frozen=True)
class Certificate:
    """Deviation of a probe at two temperatures, linear in between."""

    issued: int
    low_at: int
    low_error: int
    high_at: int
    high_error: int

    def error_at(self, milli_c: int) -> int:
        if self.low_at == self.high_at:
            return self.low_error
        share = (milli_c - self.low_at) / (self.high_at - self.low_at)
        share = min(max(share, 0.0), 1.0)
        return round(self.low_error + share * (self.high_error - self.low_error))


class Calibrator:
    def __init__(self, certificates: dict[str, list[Certificate]], strict: bool = False) -> None:
        self._by_probe = {
            probe: sorted(items, key=lambda c: c.issued) for probe, items in certificates.items()
        }
        self._strict = strict

    @classmethod
    def from_csv(cls, text: str, strict: bool = False) -> "Calibrator":
        found: dict[str, list[Certificate]] = {}
        for row in csv.DictReader(io.StringIO(text)):
            numbers = (
                int(row[name])
                for name in ("issued", "low_at", "low_error", "high_at", "high_error")
            )
            found.setdefault(row["probe"], []).append(Certificate(*numbers))
        return cls(found, strict)

    def certificate_for(self, probe: str, taken: int) -> Certificate | None:
        items = self._by_probe.get(probe, [])
        place = bisect_right([c.issued for c in items], taken)
        if place == 0:
            return None
        newest = items[place - 1]
        if taken - newest.issued > YEAR:
            if self._strict:
                raise CertificateExpired(probe, newest.issued)
            return None
        return newest

    def corrected(self, probe: str, taken: int, milli_c: int) -> int:
        certificate = self.certificate_for(probe, taken)
        return milli_c if certificate is None else milli_c - certificate.error_at(milli_c)
