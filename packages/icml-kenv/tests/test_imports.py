import subprocess
import sys

IMPORT = """
import resource, sys
import icml.kenv
from icml.kenv import Bug, Patch, Session, parse_report
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
print(sorted({"torch", "transformers", "scipy", "numpy", "tree_sitter"} & set(sys.modules)))
"""


def test_importing_the_package_is_cheap_and_brings_no_torch() -> None:
    seconds, heavy = [], ""
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
        )
        first, heavy = ended.stdout.splitlines()
        seconds.append(float(first))
    assert heavy == "[]"
    assert min(seconds) <= 0.5
