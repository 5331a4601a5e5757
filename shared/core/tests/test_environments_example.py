"""The README's example of an environment in the loop and in TRL runs as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
def test_the_readmes_environment_trains_in_the_loop_and_in_trl(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # They need extras, so they are no `python` blocks, which must run on the bare package.
    blocks = re.findall(r"^```py\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 2
    names: dict = {}
    for block in blocks:
        exec(block, names)  # each block may use what an earlier one has imported
    assert 0 <= float(capsys.readouterr().out.split()[0]) <= 1
    assert names["trainer"].state.global_step == 1
