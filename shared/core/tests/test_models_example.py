"""The README's example of models runs as it stands there."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_of_models_runs(capsys):
    # It needs extras, so it is no `python` block, which must run on the bare package.
    (example,) = re.findall(r"^```py models\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    names = {}
    exec(example, names)
    # 15 letters, a byte each, and 8 new tokens
    assert names["ids"].shape == (1, 15 + 8)
    assert "torch.Size([1, 1, 64])" in capsys.readouterr().out
