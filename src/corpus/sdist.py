"""Fetches one source distribution with pip's own finder and downloader.

`pip download` of a source distribution runs the package's build code to read
its metadata. This stops at the step before: the archive is there, nothing of
it has been run. As a second line, an audit hook that can't be taken back
refuses every attempt to start a process, and pip runs build code in processes
only.

Arguments: name, version, folder. The archive is written as `archive` into the
folder. Exit codes: 0 fetched; 90 no pip; 91 pip's internals are others than
expected; otherwise pip's own.
"""

import sys

STARTS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
}


def refuse(event, arguments):
    if event in STARTS:
        raise PermissionError("no process is started while an archive is fetched")


sys.addaudithook(refuse)

import os
import shutil

name, version, folder = sys.argv[1:4]

try:
    import pip
    from pip._internal.cli.main import main
    from pip._internal.operations import prepare
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(90)


def unknown(what):
    print(f"pip {pip.__version__}: {what}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(91)


if not callable(getattr(prepare, "_get_prepared_distribution", None)):
    unknown("the step before building is not where it was")


def stop(requirement, *rest, **named):
    path = getattr(requirement, "local_file_path", None)
    if not path or not os.path.isfile(path):
        unknown("the downloaded file is not where it was")
    shutil.copyfile(path, os.path.join(folder, "archive"))
    sys.stderr.flush()
    os._exit(0)


prepare._get_prepared_distribution = stop

code = main(
    [
        "download",
        "--no-deps",
        "--no-binary=:all:",
        "--no-input",
        "--no-cache-dir",
        "--ignore-requires-python",
        "--disable-pip-version-check",
        "--progress-bar=off",
        f"--dest={folder}",
        f"{name}=={version}",
    ]
)
if not code:
    unknown("it went past the step before building")
sys.exit(code)
