"""Runs the Lean of a shared library: ``_lean_child.py LIBRARY RIGHTS ARGUMENT...``.

Starts in a bare Python (``-I -S``) and imports nothing of ours. It loads the library first and
gives up root's rights then, so that what foreign text makes Lean do is done by nobody.
"""

import ctypes
import os
import resource
import sys

RIGHTS = ("same", "nobody", "reader")
"""Keep the user; become ``nobody``; become ``nobody`` but read everything, as Lean asks for the
real path of its program, which here is Python and may lie in root's home."""

NOBODY = 65534
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 1, 8, 38
CAP_DAC_READ_SEARCH = 1 << 2
CAPABILITY_VERSION = 0x20080522


def give_up(rights: str) -> None:
    """Change to the user and the capabilities that ``rights`` names; irrevocable."""
    libc = ctypes.CDLL(None, use_errno=True)
    if rights != "same":
        if rights == "reader":
            libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if rights == "reader":
        kept = CAP_DAC_READ_SEARCH
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        if libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)):
            raise OSError(ctypes.get_errno(), "cannot keep CAP_DAC_READ_SEARCH")
    if sys.platform == "linux":
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)  # the kernel forgot it when the user changed


def main(library: str, rights: str, arguments: list[str]) -> None:
    """Run ``lean_main`` and leave with its exit status."""
    lean_main = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL).lean_main
    lean_main.restype = ctypes.c_int
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    give_up(rights)
    argv = [b"lean", *(os.fsencode(argument) for argument in arguments)]
    status = lean_main(len(argv), (ctypes.c_char_p * (len(argv) + 1))(*argv, None))
    os._exit(status & 0xFF)  # Lean's threads don't survive Python's own ending


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
