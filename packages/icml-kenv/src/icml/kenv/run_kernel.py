"""``run_kernel``: the environment as one command, for any agent that has a shell.

It takes what was edited in the git tree it is called in, has it built and run, and prints what the
kernel did. Exit status: 0 no crash; 10 a crash, or a reproducer that hangs; 11 no build; 12 no
boot; 13 the patch was refused or is empty; 20 no run is left, or the session gives none; 30
something else was in the way; 2 the tool was called wrongly.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from icml.core.errors import MissingExtra, UserError
from icml.kenv.client import BASE, ApiError, Client
from icml.kenv.models import VerdictKind
from icml.kenv.session import diff_texts

USAGE, BUDGET, INFRA = 2, 20, 30
EXIT: dict[VerdictKind, int] = {
    "plausible": 0,
    "crash_same": 10,
    "crash_other": 10,
    "flaky": 10,
    "build_failed": 11,
    "build_timeout": 11,
    "boot_failed": 12,
    "patch_empty": 13,
    "patch_invalid": 13,
    "patch_rejected": 13,
    "apply_failed": 13,
    "infra_error": INFRA,
}
SOURCES = (".c", ".h", ".S")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="run_kernel",
        description="Build and boot the edited kernel source of this git tree and say what it did.",
        epilog="KENV_URL, KENV_SESSION and KENV_TOKEN name the server and the session. "
        + (__doc__ or "").rpartition("Exit status: ")[2].replace("\n", " "),
    )
    parser.add_argument("--submit", action="store_true", help="hand the edits in: the first counts")
    parser.add_argument("--diff", action="store_true", help="print what would be sent, and stop")
    options = parser.parse_args(argv)
    try:
        diff = edited(Path())
        if options.diff:
            print(diff, end="")
            return 0
        client = _client(os.environ)
    except (UserError, MissingExtra) as error:
        print(f"run_kernel: {error}", file=sys.stderr)
        return USAGE
    try:
        return _submit(client, diff) if options.submit else _run(client, diff)
    except ApiError as error:
        print(f"run_kernel: {error.error}: {error}", file=sys.stderr)
        return BUDGET if error.error in ("runs_exhausted", "feedback_disabled") else INFRA
    except (UserError, TimeoutError) as error:
        print(f"run_kernel: {error}", file=sys.stderr)
        return INFRA
    finally:
        client.close()


def _client(environment: Mapping[str, str]) -> Client:
    names = ("KENV_URL", "KENV_SESSION", "KENV_TOKEN")
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise UserError(f"set {', '.join(missing)}: whoever opened the session knows them")
    url, session, token = (environment[name] for name in names)
    return Client(url, session=session, token=token)


def _submit(client: Client, diff: str) -> int:
    print(f"handed in {client.submit(diff).sha256[:12]}")
    return 0


def _run(client: Client, diff: str) -> int:
    asked = client.run(diff)
    try:
        came = client.wait(asked.run_id)
    except KeyboardInterrupt:
        client.cancel(asked.run_id)
        print("run_kernel: the run was cancelled", file=sys.stderr)
        return 130
    if came.feedback is None:
        print(f"run_kernel: {came.state}: {came.message}", file=sys.stderr)
        return INFRA
    print(came.feedback.text(), end="")
    return EXIT[came.feedback.kind]


def edited(folder: Path) -> str:
    """Return the diff of a git tree's C and assembler files against where it started.

    That is the tag ``kenv-base`` where there is one, so that commits of the agent count as well,
    else HEAD. New files that git doesn't ignore are part of it, links and build products are not.

    Raises:
        UserError: If there is no git tree, or no commit in it.
    """
    root = Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").strip()))
    base = "HEAD"
    if _git(root, "tag", "--list", BASE).strip():
        base = f"refs/tags/{BASE}"
    changed = _names(root, "diff", "--name-only", "--no-renames", "-z", base)
    changed |= _names(root, "ls-files", "--others", "--exclude-standard", "-z")
    before = _names(root, "ls-tree", "-r", "--name-only", "-z", base)
    old = {
        path: _git(root, "show", f"{base}:{path}").decode(errors="replace")
        for path in changed & before
    }
    new = {
        path: (root / path).read_bytes().decode(errors="replace")
        for path in changed
        if (root / path).is_file() and not (root / path).is_symlink()
    }
    return diff_texts(old, new)


def _names(root: Path, *command: str) -> set[str]:
    names = os.fsdecode(_git(root, *command)).split("\0")
    return {name for name in names if name.endswith(SOURCES)}


def _git(folder: Path, *command: str) -> bytes:
    try:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError("git is not here: install it") from None
    if done.returncode:
        said = os.fsdecode(done.stderr).strip().splitlines() or ["no message"]
        raise UserError(f"git {command[0]} failed in {folder.resolve()}: {said[0]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
