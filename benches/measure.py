"""What the benches share: running a command with its cost, the machine, medians, tables."""

import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
WORK = os.path.join(TARGET, "bench")
PROOFLINE = os.path.join(TARGET, "release", "proofline")


def run(argv, cwd, log=None, cap=600.0, env=None):
    """Runs a command to its end or for `cap` seconds.

    Gives CPU of it and of all that it waited for (µs resolution, from wait4), wall time,
    exit code, whether the cap ended it, and peak memory of the largest single process.
    The kernel carries the peak over an exec, so memory below this program's own peak
    (some 20 MB) can't be seen; `memory` sees it.
    """
    out = open(log, "wb") if log else subprocess.DEVNULL
    start = time.perf_counter()
    child = subprocess.Popen(argv, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                             env=env, start_new_session=True)
    capped = threading.Event()

    def end():
        capped.set()
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(cap, end)
    timer.start()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    if log:
        out.close()
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "code": child.returncode,
            "capped": capped.is_set(), "rss_mb": usage.ru_maxrss / 1024}


def memory(argv, cwd, cap=600.0, env=None):
    """Peak memory of the largest process of a command in MB, by GNU time; None without it."""
    gnu = shutil.which("time")
    if gnu is None:
        return None
    with tempfile.NamedTemporaryFile("r") as file:
        run([gnu, "-q", "-o", file.name, "-f", "%M", *argv], cwd, cap=cap, env=env)
        words = file.read().split()
    return int(words[-1]) / 1024 if words and words[-1].isdigit() else None


def fsync(folder, times=50):
    """Median seconds of writing 4 KiB to a new file and syncing it."""
    os.makedirs(folder, exist_ok=True)
    seconds = []
    for _ in range(times):
        handle, name = tempfile.mkstemp(dir=folder)
        start = time.perf_counter()
        os.write(handle, b"x" * 4096)
        os.fsync(handle)
        seconds.append(time.perf_counter() - start)
        os.close(handle)
        os.unlink(name)
    return statistics.median(seconds)


def machine(folder=WORK):
    """What a reader needs to judge the figures."""
    model = "unknown"
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {"cpu": model, "processors": os.cpu_count(), "kernel": platform.release(),
            "load": round(os.getloadavg()[0], 2), "fsync_ms": round(fsync(folder) * 1000, 3),
            "python": platform.python_version()}


def version(argv):
    """First line that a program prints of itself; None when it isn't there."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def venv(name, packages):
    """Program folder of a Python environment with these packages, made when it is not there.

    None when it can't be had; why is said on standard error.
    """
    folder = os.path.join(WORK, "venvs", name)
    done = os.path.join(folder, "complete")
    if not os.path.exists(done):
        pip = os.path.join(folder, "bin", "python")
        steps = [[sys.executable, "-m", "venv", "--clear", folder], [pip, "-m", "pip", "install", "-q", *packages]]
        for step in steps:
            if subprocess.run(step, stdout=sys.stderr).returncode != 0:
                print(f"{name} is absent: `{' '.join(step)}` failed", file=sys.stderr)
                return None
        with open(done, "w"):
            pass
    return os.path.join(folder, "bin")


def proofline():
    """The program, built if it is not there."""
    if not os.path.exists(PROOFLINE):
        subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    return PROOFLINE


def median(values):
    """Median; None of nothing."""
    values = list(values)
    return statistics.median(values) if values else None


def seconds(value):
    """Seconds for people."""
    if value is None:
        return ""
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def table(head, rows):
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


class Log:
    """JSON lines, one a measurement, in a file and kept."""

    def __init__(self, path):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.path = path
        self.rows = []
        open(path, "w").close()

    def add(self, **row):
        self.rows.append(row)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")

    def of(self, **wanted):
        return [row for row in self.rows if all(row.get(key) == value for key, value in wanted.items())]
