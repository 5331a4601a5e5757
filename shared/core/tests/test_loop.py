import json
import math
import signal
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from icml.core.errors import UserError
from icml.core.models.tiny import CausalOutput, TinyGPT
from icml.core.rl.batch import Batch
from icml.core.rl.functional import policy_loss
from icml.core.rl.loop import LoopConfig, train

WORDS = range(4, 10)
SMALL = LoopConfig(iterations=4, max_new_tokens=3, prompts_per_iteration=4, group_size=4)


@dataclass(frozen=True)
class Echo:
    """Say the prompt's word, then stop."""

    word: int

    @property
    def prompt_ids(self) -> list[int]:
        return [1] * (self.word % 3) + [1, self.word]


def sample_prompts(generator: torch.Generator, n: int) -> list[Echo]:
    drawn = torch.randint(WORDS.start, WORDS.stop, (n,), generator=generator)
    return [Echo(word) for word in drawn.tolist()]


def reward(tasks, completions) -> Tensor:
    """Two rewards: the first word is right; the completion is that word and the end token."""
    rows = [
        [float(ids[0] == task.word), float(ids == [task.word, 2])]
        for task, ids in zip(tasks, completions, strict=True)
    ]
    return torch.tensor(rows)


def centred(batch: Batch) -> Tensor:
    total = batch.rewards.sum(1)
    mean = torch.zeros(len(total)).index_add(0, batch.groups, total)[batch.groups]
    return total - mean / batch.groups.bincount()[batch.groups]


def tiny(seed: int = 0) -> TinyGPT:
    return TinyGPT(vocab=WORDS.stop, d=16, layers=1, heads=2, ctx=12, seed=seed)


def accuracy(model: nn.Module) -> dict[str, float]:
    with torch.no_grad():
        hits = [
            model(torch.tensor([Echo(word).prompt_ids])).logits[0, -1].softmax(-1)[word]
            for word in WORDS
        ]
    return {"accuracy": torch.stack(hits).mean().item()}


def trained(config: LoopConfig = SMALL, advantage_fn=centred, seed=0, **options) -> nn.Module:
    model = tiny()
    train(model, sample_prompts, reward, advantage_fn, config, seed=seed, **options)
    return model


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


class Bandit(nn.Module):
    """A softmax policy over arms: one parameter an arm, the prompt doesn't matter."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.preferences = nn.Parameter(torch.tensor(logits))

    def forward(self, ids: Tensor) -> CausalOutput:
        return CausalOutput(self.preferences.expand(*ids.shape, -1))


def test_a_bandits_update_is_the_closed_form_policy_gradient():
    n, payoff = 20_000, torch.tensor([1.0, -1.0, 0.5, 2.0])
    model = Bandit([0.3, 0.0, -0.4, 0.1])
    before = model.preferences.detach().clone()
    config = LoopConfig(
        iterations=1,
        max_new_tokens=1,
        prompts_per_iteration=n,
        group_size=1,
        learning_rate=1.0,
        optimizer="sgd",
        loss="reinforce",
        grad_clip=1e9,
    )
    train(
        model,
        sample_prompts,
        lambda _, completions: payoff[[ids[0] for ids in completions], None],
        lambda batch: batch.rewards[:, 0],
        config,
        seed=5,
    )
    moved = model.preferences.detach() - before
    # d/dx_j E[r] = p_j (r_j - E[r]); one row's estimate is r_a (1[a = j] - p_j), a drawn from p.
    p = before.softmax(0)
    expected = p * (payoff - p @ payoff)
    estimates = payoff[:, None] * (torch.eye(4) - p)
    variance = p @ estimates**2 - (p @ estimates) ** 2
    # 4 normal deviates beyond 4 standard errors: false alarm 3e-4 (and the seed is fixed).
    assert ((moved - expected).abs() < 4 * (variance / n).sqrt()).all()


def test_a_trivial_task_is_learnt():
    model = tiny()
    config = LoopConfig(iterations=150, max_new_tokens=3, learning_rate=3e-3, eval_every=50)
    result = train(model, sample_prompts, reward, centred, config, seed=1, evaluate=accuracy)
    scores = [row["accuracy"] for row in result.rows if "accuracy" in row]
    assert [row["step"] for row in result.rows if "accuracy" in row] == [0, 50, 100, 150]
    # Untrained, the right word has probability 1 / 10.
    assert scores[0] < 0.2
    assert scores[-1] > 0.9
    assert result.rows[149]["train/reward/0"] > 0.9


def test_one_step_is_the_gradient_of_the_shared_loss_row_by_row():
    seen: list[Batch] = []

    def remember(batch: Batch) -> Tensor:
        seen.append(batch)
        return centred(batch)

    config = replace(SMALL, iterations=1, optimizer="sgd", learning_rate=0.5, grad_clip=1e9)
    after, by_hand = trained(config, remember), tiny()
    (batch,) = seen
    logp = torch.zeros(batch.mask.shape)
    for row, length in enumerate(batch.prompt_lengths):
        prompt = batch.prompt_ids[row, :length].tolist()
        completion = batch.completion_ids[row, : batch.mask[row].sum()].tolist()
        logits = by_hand(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        chosen = logits.log_softmax(-1)[range(len(completion)), completion]
        logp = logp.index_put((torch.tensor(row), torch.arange(len(completion))), chosen)
    policy_loss(logp, batch.old_logp, centred(batch), batch.mask).loss.backward()
    for ours, theirs in zip(after.parameters(), by_hand.parameters(), strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(ours, theirs - 0.5 * theirs.grad)


def test_the_batch_says_who_answered_what():
    seen: list[Batch] = []

    def remember(batch: Batch) -> Tensor:
        seen.append(batch)
        return centred(batch)

    trained(replace(SMALL, iterations=1), remember)
    (batch,) = seen
    assert batch.groups.tolist() == [i // 4 for i in range(16)]
    for row, task in enumerate(batch.tasks):
        assert batch.prompt_ids[row, : batch.prompt_lengths[row]].tolist() == task.prompt_ids
        assert task == batch.tasks[row - row % 4]
        ids = batch.completion_ids[row, : batch.mask[row].sum()].tolist()
        assert torch.equal(batch.rewards[row], reward([task], [ids])[0])


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not():
    state = torch.get_rng_state()
    assert same_weights(trained(seed=3), trained(seed=3))
    assert not same_weights(trained(seed=3), trained(seed=4))
    assert torch.equal(torch.get_rng_state(), state)


def test_one_advantage_a_row_equals_the_same_advantage_on_every_token():
    a_token = lambda batch: centred(batch)[:, None].expand(batch.mask.shape)  # noqa: E731
    assert same_weights(trained(), trained(advantage_fn=a_token))


def test_equal_rewards_leave_every_weight_as_it_was():
    model = tiny()
    nothing = lambda tasks, _: torch.ones(len(tasks), 2)  # noqa: E731
    train(model, sample_prompts, nothing, centred, SMALL, seed=0)
    assert same_weights(model, tiny())


def test_evaluation_does_not_disturb_training():
    assert same_weights(trained(), trained(evaluate=accuracy))


@pytest.mark.parametrize(
    "option",
    [
        {"iterations": 5},
        {"max_new_tokens": 2},
        {"prompts_per_iteration": 5},
        {"group_size": 5},
        {"learning_rate": 0.03},
        {"optimizer": "sgd"},
        {"loss": "reinforce"},
        {"eps_low": 0.01},
        {"eps_high": 0.01},
        {"epochs_per_iteration": 4},
        {"kl_beta": 1.0},
        {"grad_clip": 0.01},
        {"temperature": 0.5},
        {"eos_id": 3},
    ],
    ids=lambda option: next(iter(option)),
)
def test_every_option_changes_the_result(option):
    base = replace(SMALL, learning_rate=0.02, epochs_per_iteration=3)
    assert not same_weights(trained(base), trained(replace(base, **option)))


class Killed(BaseException):
    """Stands for the end of the process: nothing in the loop may catch it."""


def dying_after(calls: int, death):
    left = iter(range(calls))

    def dying(tasks, completions) -> Tensor:
        if next(left, None) is None:
            death()
        return reward(tasks, completions)

    return dying


def die() -> None:
    raise Killed


LONG = replace(SMALL, iterations=11, checkpoint_every=3, eval_every=4)


PENALISED = replace(LONG, kl_beta=0.5)


def run(folder, rewarded=reward, config=LONG, seed=0):
    model, told = tiny(), []
    train(
        model,
        sample_prompts,
        rewarded,
        centred,
        config,
        seed=seed,
        evaluate=accuracy,
        checkpoint=folder,
        log=lambda step, **metrics: told.append((step, metrics)),
    )
    return model, told


@pytest.mark.parametrize(
    ("calls", "config"),
    [*((calls, LONG) for calls in (0, 2, 3, 7, 10)), (7, PENALISED)],
)
def test_a_killed_run_continues_bit_for_bit(tmp_path, calls, config):
    whole, whole_log = run(None, config=config)
    with pytest.raises(Killed):
        run(tmp_path / "state", dying_after(calls, die), config)
    continued, log = run(tmp_path / "state", config=config)
    assert same_weights(continued, whole)
    assert log == whole_log


def test_a_finished_run_is_told_again_without_training(tmp_path):
    _, first = run(tmp_path / "state")
    _, again = run(tmp_path / "state", dying_after(0, die))
    assert again == first


def iterations_saved(folder) -> int:
    return json.loads((folder / "state.json").read_text())["iteration"]


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_saved_at_the_end_of_its_iteration(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "state", dying_after(4, press))
    assert iterations_saved(tmp_path / "state") == 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same_weights(run(tmp_path / "state")[0], run(None)[0])


def test_a_second_interrupt_is_not_held_back(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "state", dying_after(4, lambda: (press(), press())))
    assert iterations_saved(tmp_path / "state") == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"config": replace(LONG, learning_rate=0.5)}, "learning_rate=0.0003, this one has"),
        ({"seed": 1}, "seed=0, this one has seed=1"),
    ],
)
def test_a_folder_of_another_run_is_refused(tmp_path, changed, message):
    run(tmp_path / "state")
    with pytest.raises(UserError, match=message):
        run(tmp_path / "state", **changed)


@pytest.mark.parametrize("damaged", ["model.safetensors", "optimizer.pt", "state.json"])
def test_a_damaged_checkpoint_is_refused_with_its_name(tmp_path, damaged):
    run(tmp_path / "state")
    (tmp_path / "state" / damaged).write_bytes(b"{")
    with pytest.raises(UserError, match="state holds no checkpoint that can be read"):
        run(tmp_path / "state")


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="holds no checkpoint that can be read"):
        run(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def one_nan(batch: Batch) -> Tensor:
    advantages = centred(batch)
    advantages[5] = math.nan
    return advantages


@pytest.mark.parametrize(
    ("advantage_fn", "message"),
    [
        (lambda batch: batch.rewards, r"\(16,\) or \(16, 3\), .*; got \(16, 2\)"),
        (lambda batch: batch.rewards.sum(), r"got \(\)"),
        (lambda batch: [0.0] * 16, "got list"),
        (one_nan, r"NaN or infinity for 1 of 16 rows \(first: row 5, rewards \["),
    ],
)
def test_an_advantage_function_that_errs_is_told_what_it_must_return(advantage_fn, message):
    with pytest.raises(UserError, match=message):
        trained(advantage_fn=advantage_fn)


def test_an_advantage_outside_the_mask_is_never_looked_at():
    config = replace(SMALL, max_new_tokens=6, iterations=3)

    def nan_outside(batch: Batch) -> Tensor:
        assert not batch.mask.all()
        return centred(batch)[:, None].expand(batch.mask.shape).masked_fill(~batch.mask, math.nan)

    assert same_weights(trained(config), trained(config, nan_outside))


@pytest.mark.parametrize("shape", [(16,), (15, 2), (16, 0), (4, 4, 2)])
def test_a_reward_function_that_errs_is_told_what_it_must_return(shape):
    with pytest.raises(UserError, match=r"reward must return .* \(16, rewards\)"):
        train(tiny(), sample_prompts, lambda *_: torch.ones(shape), centred, SMALL, seed=0)


def test_a_gradient_that_is_not_finite_stops_the_run():
    huge = lambda batch: torch.full(batch.groups.shape, 3e38)  # noqa: E731
    with pytest.raises(UserError, match=r"the gradient's norm is (inf|nan): lower learning_rate"):
        trained(replace(SMALL, loss="reinforce"), huge)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("iterations", -1, "iterations must be at least 0, got -1"),
        ("group_size", 0, "group_size must be at least 1, got 0"),
        ("learning_rate", 0.0, "learning_rate must be above 0, got 0.0"),
        ("grad_clip", math.nan, "grad_clip must be above 0, got nan"),
        ("kl_beta", -0.1, "kl_beta must be at least 0 and finite, got -0.1"),
        ("kl_beta", math.nan, "kl_beta must be at least 0 and finite, got nan"),
        ("optimizer", "adam", "must be 'adamw' or 'sgd', got 'adam'"),
    ],
)
def test_a_config_that_makes_no_run_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **{field: value})


def test_no_iterations_only_evaluate():
    model = tiny()
    none = replace(SMALL, iterations=0)
    result = train(model, sample_prompts, reward, centred, none, seed=0, evaluate=accuracy)
    assert result.rows == [{"step": 0, **accuracy(tiny())}]
