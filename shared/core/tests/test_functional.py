"""What ``icml.core.rl.functional`` offers, and what importing it costs."""

import subprocess
import sys

from icml.core.rl import functional

IMPORTS = """
import sys
import icml.core.rl.functional
from icml.core.cuda.device import deterministic
with deterministic(0):
    pass
heavy = ("trl", "transformers", "datasets", "accelerate", "torch._inductor")
print([module for module in heavy if module in sys.modules])
"""


def test_every_public_name_exists_and_has_a_docstring():
    assert functional.__all__ == sorted(functional.__all__)
    assert all(getattr(functional, name).__doc__ for name in functional.__all__)


def test_the_mathematics_and_a_deterministic_block_load_no_trainer_and_no_compiler():
    result = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
