"""Time of Gosper's algorithm against sympy's, of the suite, and of the judge against the search.

Run it with ``uv run python`` and this file; ``--out FILE`` writes the numbers as JSON. Everything
is timed in one process on warm code, processor time, best of five: a ratio means the same on
every machine, a time does not.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import sympy
from sympy.concrete.gosper import gosper_sum

from icml.core.journal import write_atomic
from icml.wzllm.certify import certify
from icml.wzllm.derive import check_telescoping
from icml.wzllm.find import find
from icml.wzllm.finite import check_small_values
from icml.wzllm.identities import suite
from icml.wzllm.parser import parse
from icml.wzllm.reading import to_term
from icml.wzllm.ring import ring
from icml.wzllm.shape import reshape
from icml.wzllm.telescope import Telescoper, telescoper
from icml.wzllm.verification import verify

REPEATS, COUNT = 5, 20
SUMS = (
    "k",
    "k^2",
    "k^3",
    "k*factorial(k)",
    "k*2^k",
    "binomial(2*k,k)/4^k",
    "(4*k+1)*factorial(k)/factorial(2*k+1)",
    "(-1)^k*binomial(n,k)",
)


def seconds(call: Callable[[], object], count: int = 1) -> float:
    """Return the least processor time of a call, after one that is not timed."""
    call()
    times = []
    for _ in range(REPEATS):
        start = process_time()
        for _ in range(count):
            call()
        times.append((process_time() - start) / count)
    return min(times)


def ours(text: str) -> Telescoper | None:
    """Sum a formula in k by Gosper's algorithm, from its text."""
    names = ring(("k", "n"))
    return telescoper(names, to_term(names, parse(text), frozenset(("k",))), "k", None, 0)


def gosper_against_sympy() -> dict[str, float]:
    """Return sympy's time over ours for each sum."""
    k, n = sympy.symbols("k n", integer=True, nonnegative=True)
    ratios = {}
    for text in SUMS:
        theirs = sympy.parse_expr(text.replace("^", "**"), {"k": k, "n": n})
        ratio = seconds(partial(gosper_sum, theirs, (k, 0, n)))
        ratios[text] = ratio / seconds(partial(ours, text), COUNT)
    return ratios


def search_and_judge() -> dict[str, float]:
    """Return medians over the certified identities of the suite: the judge over the search."""
    whole, equation = [], []
    for item in suite():
        certificate = certify(item.identity).certificate if item.holds else None
        if certificate is None:
            continue
        shape, n = reshape(item.identity), certificate.shift_var
        search = partial(find, shape, item.identity.vars, n, certificate.order)
        claim = search()
        assert claim is not None
        spent = seconds(search)
        equation.append(seconds(partial(check_telescoping, claim)) / spent)
        whole.append(seconds(partial(verify, certificate)) / spent)
    return {
        "checking the telescoped equation, over the search (median)": statistics.median(equation),
        "the whole judge, over the search (median)": statistics.median(whole),
    }


def suite_time() -> dict[str, float]:
    """Return the time of all identities, and which part of it the finite check takes."""
    identities = [item.identity for item in suite()]

    def finite() -> list[bool]:
        return [check_small_values(identity).counterexample is None for identity in identities]

    def everything() -> None:
        for identity, passed in zip(identities, finite(), strict=True):
            if passed:
                certify(identity)

    total = seconds(everything)
    return {
        "the suite of 78 (s)": total,
        "the finite check's part of it (fraction)": seconds(finite) / total,
    }


def main() -> None:
    """Print the table and write it where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    out = parser.parse_args().out
    ratios = gosper_against_sympy()
    numbers = {**suite_time(), **search_and_judge()}
    for text, ratio in ratios.items():
        print(f"gosper_sum / ours: {text:<42} {ratio:8.0f}")
    for name, value in numbers.items():
        print(f"{name:<61} {value:8.2f}")
    if out is not None:
        results = {"sympy": sympy.__version__, "gosper_sum over ours": ratios, **numbers}
        write_atomic(out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
