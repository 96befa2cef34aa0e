"""Switches, shared with the ingest service."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Flag:
    enabled: bool
    percent: int = 100

    def covers(self, name: str, subject: str) -> bool:
        """The same subject always falls on the same side of the line."""
        if self.percent >= 100:
            return True
        return zlib.crc32(f"{name}/{subject}".encode()) % 100 < self.percent


class FlagSet:
    def __init__(self, flags: dict[str, Flag]) -> None:
        self._flags = flags

    @classmethod
    def from_file(cls, path: Path) -> "FlagSet":
        raw = json.loads(path.read_text("utf-8"))
        flags = {}
        for name, entry in raw.items():
            unknown = set(entry) - {"enabled", "percent"}
            if unknown:
                raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
            flags[name] = Flag(**entry)
        return cls(flags)

    def is_enabled(self, name: str, subject: str = "") -> bool:
        flag = self._flags.get(name)
        return flag is not None and flag.enabled and flag.covers(name, subject)
