"""What the ``icml`` command says when something goes wrong."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence

from icml.core.errors import MissingExtra, UserError

# Trouble with a folder or a disk that the user chose; no line of ours can prevent it.
_DISK_TROUBLE = {
    errno.EACCES, errno.EDQUOT, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOSPC,
    errno.ENOTDIR, errno.EPERM, errno.EROFS,
}  # fmt: skip


def explain(error: Exception, args: Sequence[str], *, debug: bool) -> int:
    """Say on stderr what went wrong and return the exit status.

    Args:
        error: What ended the command.
        args: The command line, to tell a path that the user gave from one of ours.
        debug: Show the traceback of an error that the user can mend, too.

    Returns:
        2 if the user can mend it (one sentence), 141 if nobody reads our output any more
        (silent), else 1: a bug of ours, with its traceback and what to do about it.
    """
    if isinstance(error, BrokenPipeError) and _reader_has_gone():
        return 141  # 128 + SIGPIPE, what a shell reports for `yes | head`
    sentence = _sentence(error, args)
    if debug or sentence is None:
        traceback.print_exception(error)
    if sentence is not None:
        print(f"icml: {sentence}", file=sys.stderr)
        return 2
    print(
        "\nicml: this is a bug, not a mistake of yours. Please report it with the traceback "
        f"above, the command\n  icml {' '.join(args)}\nand what `icml doctor` prints.",
        file=sys.stderr,
    )
    return 1


def _sentence(error: Exception, args: Sequence[str]) -> str | None:
    """Return the message for an error that the user can mend, None for any other."""
    if isinstance(error, UserError | MissingExtra):
        return str(error)
    if isinstance(error, OSError):
        named = error.filename is not None and str(error.filename) in args
        if named or error.errno in _DISK_TROUBLE:
            where = f": {error.filename}" if error.filename is not None else ""
            return f"{error.strerror or error}{where}"
    return None


def _reader_has_gone() -> bool:
    """Tell a closed stdout from the broken pipe of a worker process, which is a bug."""
    descriptor = sys.stdout.fileno()
    try:
        os.write(descriptor, b"\n")  # the failed print has left nothing to flush again
    except BrokenPipeError:
        # Python flushes once more at exit and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        return True
    return False
