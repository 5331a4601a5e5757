import pytest
from transformers import TrainerState

from icml.core.rl.step_lines import SFT_HEADS, StepLines, sft_cells


def lines(capsys: pytest.CaptureFixture[str], *, rank0: bool, logs: dict) -> list[str]:
    shown = StepLines(
        f"{'reward':>9}", lambda log: f"{log['reward']:>9.3f}" if "reward" in log else None
    )
    state = TrainerState(global_step=3, max_steps=20, is_world_process_zero=rank0)
    shown.on_train_begin(None, state, None)
    shown.on_log(None, state, None, logs=logs)
    return capsys.readouterr().out.splitlines()


def test_a_steps_line_stands_under_its_heads(capsys) -> None:
    heads, line = lines(capsys, rank0=True, logs={"reward": 0.25})
    assert heads.split() == ["step", "reward", "s"]
    assert line.split() == ["3/20", "0.250", "0.0"]
    assert len(line) == len(heads)


def test_an_evaluations_log_and_other_ranks_print_no_line(capsys) -> None:
    assert len(lines(capsys, rank0=True, logs={"eval_loss": 1.0})) == 1
    assert lines(capsys, rank0=False, logs={"reward": 0.25}) == []


def test_supervised_training_has_cells_as_wide_as_their_heads() -> None:
    cells = sft_cells({"loss": 0.5, "mean_token_accuracy": 0.75})
    assert cells is not None
    assert cells.split() == ["0.5000", "75.0%"]
    assert len(cells) == len(SFT_HEADS)
    assert sft_cells({"train_runtime": 1.0}) is None
