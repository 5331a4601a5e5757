"""``icml empg explain``: the stored steps before and after, and what is no log."""

import json

import pytest
import torch
from torch.testing import assert_close

from icml.core.cli import main
from icml.core.errors import UserError
from icml.empg import EMPGParams, empg_modulate
from icml.empg.explain import explain

WON = {
    "reward": 1.0, "group": "red ball",
    "steps": [{"text": "go\nforward", "entropy": 0.0}, {"entropies": [1.5, 0.5]}],
}  # fmt: skip
LOST = {
    "reward": 0.0, "group": "red ball", "steps": [{"entropy": 2.0}, {"entropy": 0.5}],
}  # fmt: skip


@pytest.fixture
def log(tmp_path):
    def write(*episodes):
        path = tmp_path / "log.jsonl"
        lines = [e if isinstance(e, str) else json.dumps(e) for e in episodes]
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def test_the_steps_are_those_of_the_pure_function(log):
    found = explain(log(WON, "", LOST), EMPGParams(zeta=0.3))
    # (1 - .5) / (std + 1e-4), std of 1 and 0 being .707107
    advantage = 0.5 / (0.5**0.5 + 1e-4)
    before = torch.tensor([advantage, advantage, -advantage, -advantage], dtype=torch.float64)
    assert_close(found.advantages, before)
    entropy = torch.tensor([0.0, 1.0, 2.0, 0.5], dtype=torch.float64)
    expected = empg_modulate(before, entropy, torch.tensor([1, -1, 3, -1]), EMPGParams(zeta=0.3))
    assert torch.equal(found.result.advantages, expected.advantages)


def test_advantages_that_are_given_are_taken_and_episodes_without_steps_pass(log):
    given = [
        {"advantage": 2.0, "steps": [{"entropy": 0.5}]},
        {"advantage": 9.0, "steps": []},
        {"advantage": -1.0, "steps": [{"entropy": 1.0}, {"entropy": 0.25}]},
    ]
    found = explain(log(*given))
    assert found.advantages.tolist() == [2.0, -1.0, -1.0]
    assert found.result.bonus.tolist()[::2] == [0, 0]
    assert "episode 1: 0 steps" in str(found)


def test_text_with_odd_line_ends_stays_one_line_of_the_log(log):
    odd = json.dumps(
        {"advantage": 1.0, "steps": [{"text": "go\u2028on\x85", "entropy": 1}]}, ensure_ascii=False
    )
    assert str(explain(log(odd))).splitlines()[2].endswith("  go on")


def test_what_rounding_made_negative_counts_as_zero(log):
    rounded = {"advantage": 1.0, "steps": [{"entropy": -1e-7}, {"entropies": [-1e-5, 1.0]}]}
    assert explain(log(rounded)).entropy.tolist() == [0.0, 0.5]


def test_the_command_prints_each_step_and_the_effect_on_the_update(log, capsys):
    path = str(log(WON, LOST))
    assert main(["empg", "explain", path, "--episodes", "1"]) == 0
    text = capsys.readouterr().out
    # g, f and the bonus as in test_modulation; the advantage is .707007 of theirs
    assert "   0   0.0000  1.453  1.000  0.061    0.7070" in text
    assert text.splitlines()[2].endswith("go forward")
    assert "episode 1:" not in text
    assert "... and 1 more episodes" in text
    assert "2 episodes, 4 steps" in text
    assert "correlation with entropy" in text


def test_a_bonus_that_dominates_is_noted(log):
    equal = [{"reward": 1.0, "group": 0, "steps": [{"entropy": h}, {"entropy": 1}]} for h in (0, 1)]
    text = str(explain(log(*equal)))
    assert "share of the bonus in the advantages: 100.0%" in text
    assert "note: the clarity bonus makes up more than a fifth" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: Invalid JSON"),
        ("[1]", "line 2: Input should be an object"),
        ({"steps": []}, "line 2: give advantage, or reward and group"),
        ({"reward": 1.0, "steps": []}, "line 2: give advantage, or reward and group"),
        ({**WON, "advantage": 1.0}, "line 2: give advantage, or reward and group"),
        ({**WON, "steps": [{"text": "x"}]}, r"steps.0: give entropy \(nats\) or entropies"),
        ({**WON, "steps": [{"entropy": -1}]}, "steps.0.entropy: input should be greater than or"),
        ({**WON, "steps": [{"entropies": []}]}, "steps.0.entropies: list should have at least 1"),
        (
            {**WON, "steps": [{"entropy": float("nan")}]},
            "steps.0.entropy: input should be a finite",
        ),
        ({**WON, "reward": "1"}, "reward: input should be a valid number"),
        ({**WON, "turns": 2}, "unknown key turns"),
    ],
)
def test_a_line_that_is_no_episode_is_named(log, line, message):
    with pytest.raises(UserError, match=message) as caught:
        explain(log(WON, line))
    assert "\n" not in str(caught.value)


def test_files_without_anything_to_explain_are_refused(log, tmp_path):
    with pytest.raises(UserError, match="can't read the log"):
        explain(tmp_path / "nothing.jsonl")
    with pytest.raises(UserError, match="has 0 episodes and not one step"):
        explain(log(""))


def test_parameters_out_of_range_exit_with_2(log, capsys):
    assert main(["empg", "explain", str(log(WON)), "--k", "-1"]) == 2
    assert "k must be a finite number >= 0, got -1.0" in capsys.readouterr().err
    assert main(["empg", "explain", str(log(WON)), "--episodes", "-1"]) == 2
