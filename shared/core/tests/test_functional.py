"""What ``icml.core.rl.functional`` offers, and what importing it costs."""

import subprocess
import sys

from icml.core.rl import functional


def test_every_public_name_exists_and_has_a_docstring():
    assert functional.__all__ == sorted(functional.__all__)
    assert all(getattr(functional, name).__doc__ for name in functional.__all__)


def test_importing_it_loads_no_trainer_library():
    code = (
        "import sys, icml.core.rl.functional; "
        "print([m for m in ('trl', 'transformers', 'datasets', 'accelerate') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
