"""Command line of the back office."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from datetime import datetime, timezone
from http.server import ThreadingHTTPServer
from pathlib import Path

from .calibration import Calibrator
from .flags import FlagSet
from .intake import Intake, handler_for
from .notify import Dispatcher
from .report import build_daily_sheet, load_bands, render_csv, render_text
from .store import ReadingStore


class Printer:
    """A channel for trying things out."""

    def send(self, role: str, text: str) -> None:
        print(f"[{role}] {text}", file=sys.stderr)


def day_argument(text: str) -> int:
    try:
        day = datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date") from None
    return int(day.replace(tzinfo=timezone.utc).timestamp())


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="larderwatch")
    parser.add_argument("--database", default="larder.sqlite")
    parser.add_argument("--config", type=Path, default=Path("config"))
    commands = parser.add_subparsers(dest="command", required=True)
    sheet = commands.add_parser("sheet")
    sheet.add_argument("day", type=day_argument)
    sheet.add_argument("--format", choices=("csv", "text"), default="text")
    sheet.add_argument("--certificates", type=Path)
    sweep = commands.add_parser("sweep")
    sweep.add_argument("--full-days", type=int, default=90)
    sweep.add_argument("--total-days", type=int, default=730)
    sweep.add_argument("--dry-run", action="store_true")
    serve = commands.add_parser("serve")
    serve.add_argument("--port", type=int, default=8471)
    return parser


def print_sheet(args: argparse.Namespace, store: ReadingStore, flags: FlagSet) -> int:
    bands = load_bands((args.config / "profiles.conf").read_text("utf-8"))
    text = args.certificates.read_text("utf-8") if args.certificates else ""
    rows = build_daily_sheet(store, bands, args.day, flags, Calibrator.from_csv(text))
    print(render_csv(rows) if args.format == "csv" else render_text(rows), end="")
    return 1 if any(row.verdict == "fail" for row in rows) else 0


def clean_up(args: argparse.Namespace, store: ReadingStore) -> int:
    plan = store.plan_retention(int(time.time()), args.full_days, args.total_days)
    if args.dry_run:
        print(plan)
    else:
        print(f"{store.sweep(plan)} readings removed")
    return 0


def watch_cases(dispatcher: Dispatcher, interval: float = 30.0) -> None:
    while True:
        time.sleep(interval)
        now = int(time.time())
        dispatcher.release_held(now)
        dispatcher.escalate_overdue(now)


def serve_forever(args: argparse.Namespace, store: ReadingStore, flags: FlagSet) -> int:
    dispatcher = Dispatcher(Printer(), flags, lambda now: time.localtime(now).tm_hour)
    threading.Thread(target=watch_cases, args=(dispatcher,), daemon=True).start()
    handler = handler_for(Intake(store, dispatcher))
    ThreadingHTTPServer(("127.0.0.1", args.port), handler).serve_forever()
    return 0


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    store = ReadingStore(args.database)
    flags = FlagSet.from_file(args.config / "flags.json")
    if args.command == "sheet":
        return print_sheet(args, store, flags)
    if args.command == "sweep":
        return clean_up(args, store)
    return serve_forever(args, store, flags)


if __name__ == "__main__":
    raise SystemExit(main())
