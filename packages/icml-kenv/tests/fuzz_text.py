"""Fuzz what reads foreign text: python fuzz_text.py -max_total_time=60."""

import sys
from contextlib import suppress

import atheris

with atheris.instrument_imports(include=["icml.kenv"]):
    from icml.kenv.console import read_console
    from icml.kenv.models import Patch
    from icml.kenv.patch import PatchRejected
    from icml.kenv.policy import Policy
    from icml.kenv.report import contains_crash, parse_report
    from icml.kenv.titles import normalise_title


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", errors="replace")
    reports = parse_report(text)
    if contains_crash(text) != bool(reports):
        raise AssertionError("the two ways to look for a crash disagree")
    for found in reports:
        if normalise_title(found.title) != found.title:
            raise AssertionError(f"the title {found.title!r} is not normalised")
    if read_console(text, "0" * 16).finished and "0" * 16 not in text:
        raise AssertionError("a boot ended without its nonce")
    with suppress(PatchRejected):
        Policy().check(Patch(diff=text))


atheris.Setup(sys.argv, one_input)
atheris.Fuzz()
