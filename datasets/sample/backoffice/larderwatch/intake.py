"""The HTTP side: takes readings and alarms, serves the kitchen screen."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler
from typing import Callable
from urllib.parse import parse_qs, urlsplit

from .notify import Dispatcher
from .store import ReadingStore
from .wire import Alarm, WireError, alarm_line, parse_alarm, parse_reading


class Intake:
    """What the paths do, apart from the protocol."""

    def __init__(
        self,
        store: ReadingStore,
        dispatcher: Dispatcher,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.dispatcher = dispatcher
        self._clock = clock

    def store_lines(self, text: str) -> int:
        """All or nothing: a bad line refuses the batch."""
        return self.store.append_readings([parse_reading(line) for line in text.splitlines()])

    def take_alarm(self, text: str) -> int:
        alarm: Alarm = parse_alarm(text)
        cursor = self.store.record_alarm(alarm)
        self.dispatcher.announce(alarm, int(self._clock()))
        return cursor

    def feed_page(self, after: int) -> dict[str, object]:
        rows = self.store.alarms_after(after)
        return {
            "cursor": rows[-1][0] if rows else after,
            "lines": [alarm_line(alarm) for _, alarm in rows],
        }

    def chart(self, probe: str, start: int, end: int) -> list[list[int]]:
        return [[r.taken, r.milli_c] for r in self.store.window(probe, start, end)]


class IntakeHandler(BaseHTTPRequestHandler):
    intake: Intake

    def do_POST(self) -> None:
        actions = {
            "/v1/readings": self.intake.store_lines,
            "/v1/alarms": self.intake.take_alarm,
        }
        action = actions.get(self.path)
        if action is None:
            self._answer(404, {"error": "no such path"})
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            self._answer(200, {"result": action(body.decode("ascii"))})
        except (WireError, UnicodeDecodeError) as error:
            self._answer(422, {"error": str(error)})

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            if parts.path == "/v1/alarms":
                self._answer(200, self.intake.feed_page(int(query.get("after", "0"))))
            elif parts.path == "/v1/chart":
                start, end = int(query["start"]), int(query["end"])
                self._answer(200, self.intake.chart(query["probe"], start, end))
            else:
                self._answer(404, {"error": "no such path"})
        except (KeyError, ValueError) as error:
            self._answer(400, {"error": f"bad query: {error}"})

    def _answer(self, status: int, content: object) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def handler_for(intake: Intake) -> type[IntakeHandler]:
    return type("BoundHandler", (IntakeHandler,), {"intake": intake})
