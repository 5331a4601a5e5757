"""The readable loop on text environments."""

import signal
from dataclasses import replace

import pytest
import torch
from torch import nn

from icml.core.envs.protocol import EnvStateError, Observation, StepResult
from icml.core.errors import UserError
from icml.core.models.tiny import TinyGPT
from icml.core.rl.episode_loop import train_episodes
from icml.core.rl.functional import group_advantage, policy_loss
from icml.core.rl.loop import LoopConfig
from icml.core.rl.rollout import EnvTask, RolloutError, StepBatch, to_sequence_batch
from icml.core.rl.sampling import score

WORDS = {4: "left", 5: "right"}
SMALL = LoopConfig(iterations=3, max_new_tokens=2, prompts_per_iteration=3, group_size=4)


class Sides:
    """Name the side that is shown, twice; pays one a right answer, at the end."""

    id, max_steps = "sides", 2

    def __init__(self, on_step=lambda: None) -> None:
        self.on_step, self.running = on_step, False

    def reset(self, seed: int) -> Observation:
        self.sides = ["left" if seed & bit else "right" for bit in (1, 2)]
        self.right, self.steps, self.running = 0, 0, True
        return Observation(self.sides[0])

    def step(self, action: str) -> StepResult:
        if not self.running:
            raise EnvStateError("call reset")
        self.on_step()
        self.right += action == self.sides[self.steps]
        self.steps += 1
        self.running = self.steps < 2
        info = {"success": self.right == 2, "truncated": False, "steps": self.steps}
        text = self.sides[self.steps] if self.running else "over"
        return StepResult(
            Observation(text), 0.0 if self.running else self.right / 2, not self.running, info
        )

    def close(self) -> None:
        self.running = False


def sample_tasks(generator: torch.Generator, n: int) -> list[EnvTask]:
    return [EnvTask(seed) for seed in torch.randint(4, (n,), generator=generator).tolist()]


def render(history) -> list[int]:
    ids = []
    for seen, response in zip(history.observations, [*history.responses, []], strict=True):
        ids += [1, 6 if seen.text == "left" else 7, *response]
    return ids


def decode(ids) -> str:
    return " ".join(WORDS.get(token, "?") for token in ids)


def grpo(batch: StepBatch) -> torch.Tensor:
    return group_advantage(batch.returns, batch.traj_group)[batch.traj]


def tiny() -> TinyGPT:
    return TinyGPT(vocab=8, d=16, layers=1, heads=2, ctx=16)


def run(config=SMALL, advantage_fn=grpo, seed=0, factory=lambda task: Sides(), **options):
    model, told = tiny(), []
    train_episodes(
        model, sample_tasks, factory, advantage_fn, config, max_turns=3, render=render,
        decode=decode, seed=seed, log=lambda step, **row: told.append((step, row)), **options,
    )  # fmt: skip
    return model, told


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_a_trivial_environment_is_learnt():
    config = replace(SMALL, iterations=120, prompts_per_iteration=4, learning_rate=3e-3)
    _, told = run(config, seed=1)
    # Untrained, each of two words has probability 1 / 8.
    assert told[0][1]["train/success"] < 0.2
    assert told[-1][1]["train/success"] > 0.9
    assert told[-1][1]["train/turns"] == 2


def test_one_step_is_the_gradient_of_the_shared_loss_on_each_turn():
    seen: list[StepBatch] = []

    def remember(batch: StepBatch) -> torch.Tensor:
        seen.append(batch)
        return grpo(batch)

    config = replace(SMALL, iterations=1, optimizer="sgd", learning_rate=0.5, grad_clip=1e9)
    after, by_hand = run(config, remember)[0], tiny()
    (batch,) = seen
    assert len(batch.traj) == 2 * 12
    advantages = grpo(batch)
    assert advantages.abs().max() > 0.5
    args = batch.prompt_ids, batch.prompt_lengths, batch.completion_ids
    logp = score(by_hand, *args)
    # float32 with and without a key-value cache
    torch.testing.assert_close(
        logp[batch.mask].detach(), batch.old_logp[batch.mask], rtol=1e-5, atol=1e-5
    )
    policy_loss(logp, batch.old_logp, advantages, batch.mask).loss.backward()
    for ours, theirs in zip(after.parameters(), by_hand.parameters(), strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(ours, theirs - 0.5 * theirs.grad)


def test_both_layouts_score_alike_under_the_model():
    seen: list[StepBatch] = []
    run(replace(SMALL, iterations=1), lambda batch: seen.append(batch) or grpo(batch))
    steps, model = seen[0], tiny()
    whole = to_sequence_batch(steps.trajectories)
    pairs = [
        score(model, b.prompt_ids, b.prompt_lengths, b.completion_ids)[b.mask].detach()
        for b in (steps, whole)
    ]
    # float32 of other batch shapes
    torch.testing.assert_close(*pairs, rtol=1e-5, atol=1e-5)


def test_one_advantage_a_turn_equals_the_same_advantage_on_every_token():
    a_token = lambda batch: grpo(batch)[:, None].expand(batch.mask.shape)  # noqa: E731
    assert same_weights(run()[0], run(advantage_fn=a_token)[0])


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not():
    first, again, other = run(seed=3), run(seed=3), run(seed=4)
    assert first[1] == again[1]
    assert same_weights(first[0], again[0])
    assert not same_weights(first[0], other[0])


class Killed(BaseException):
    """Stands for the end of the process: nothing in the loop may catch it."""


def dying_after(steps: int, death):
    left = iter(range(steps))

    def on_step() -> None:
        if next(left, None) is None:
            death()

    return lambda task: Sides(on_step)


def die() -> None:
    raise Killed


LONG = replace(SMALL, iterations=7, checkpoint_every=2)


@pytest.mark.parametrize("steps", [0, 60, 110])
def test_a_killed_run_continues_bit_for_bit(tmp_path, steps):
    whole, whole_log = run(LONG)
    with pytest.raises(Killed):
        run(LONG, factory=dying_after(steps, die), checkpoint=tmp_path / "state")
    continued, log = run(LONG, checkpoint=tmp_path / "state")
    assert same_weights(continued, whole)
    assert log == whole_log


def test_an_interrupt_is_saved_at_the_end_of_its_iteration(tmp_path):
    press = lambda: signal.raise_signal(signal.SIGINT)  # noqa: E731
    pressed = iter([press])
    factory = dying_after(50, lambda: next(pressed, lambda: None)())
    with pytest.raises(KeyboardInterrupt):
        run(LONG, factory=factory, checkpoint=tmp_path / "state")
    assert same_weights(run(LONG, checkpoint=tmp_path / "state")[0], run(LONG)[0])


def test_a_folder_of_a_run_with_other_turns_is_refused(tmp_path):
    run(LONG, checkpoint=tmp_path / "state")
    with pytest.raises(UserError, match="max_turns=3, this one has max_turns=2"):
        train_episodes(
            tiny(), sample_tasks, lambda task: Sides(), grpo, LONG, max_turns=2, render=render,
            decode=decode, seed=0, checkpoint=tmp_path / "state",
        )  # fmt: skip


def test_an_advantage_that_is_no_number_names_turn_and_episode():
    def bad(batch: StepBatch) -> torch.Tensor:
        return grpo(batch).index_fill(0, torch.tensor([5]), torch.nan)

    with pytest.raises(UserError, match=r"1 of 24 rows \(first: row 5, turn 1 of episode 2, ret"):
        run(advantage_fn=bad)


def test_failing_environments_stop_the_run():
    with pytest.raises(RolloutError, match="12 of 12 environments raised"):
        run(factory=lambda task: None)
