"""Episodes for several tests: an agent that writes the format, in a vault that takes any action."""

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch

from icml.agent_omit.experiment.demos import cold_omissions, demonstrate, fit
from icml.agent_omit.format import action_of, write_turn
from icml.agent_omit.transcript import OmitTranscript
from icml.agent_omit.vault import Vault
from icml.agent_omit.words import BOS, vault_words
from icml.core.models.tiny import TinyGPT
from icml.core.rl.episodes import Trajectory
from icml.core.rl.rollout import EnvTask, Sample, collect


class Scripted:
    """A sampler that says what a function of the turn's number and the episode's draws says."""

    def __init__(self, encode, says: Callable[[int, random.Random], str]) -> None:
        self.encode, self.says, self.turn = encode, says, 0

    def sample(self, prompts: Sequence, *, max_new_tokens: int, generators: Sequence):
        self.turn += 1
        samples = []
        for generator in generators:
            draw = random.Random(int(torch.randint(2**31, (), generator=generator)))
            text = self.says(self.turn, draw)
            ids = list(self.encode(text))
            numbers = torch.rand(len(ids), generator=generator)
            samples.append(Sample(ids, -numbers, numbers, text))
        return samples


class Endless(Vault):
    """A vault in which every action is right but ``press 0``, which ends the episode."""

    def step(self, action: str):
        right = self._rooms[self._turn].action if not self._over else action
        return super().step(action if action == "press 0" else right)


def played(says, *, turns=6, episodes=1, seed=0, transcript=None) -> list[Trajectory]:
    env = Endless(turns=turns)
    transcript = transcript or vault_transcript(env)
    return collect(
        Scripted(transcript.encode, says),
        lambda _: Endless(turns=turns),
        [EnvTask(number) for number in range(episodes)],
        group_size=1,
        max_turns=turns,
        max_new_tokens=99,
        render=transcript,
        parse=action_of,
        seed=seed,
    )


def vault_transcript(env: Vault, **changes) -> OmitTranscript:
    words = vault_words(env)
    settings = {"begin": (BOS,), "tell_task": False} | changes
    return OmitTranscript(words.encode, words.decode, **settings)


def random_output(turn: int, draw: random.Random) -> str:
    """Anything an agent may write: thoughts or none, commands good and bad, a fault at times."""
    thought = " ".join(draw.choice(["see", "exit", "north"]) for _ in range(draw.randrange(4)))
    omit = [draw.randint(1, 7) for _ in range(draw.choice([0, 0, 0, 1, 1, 2]))]
    if draw.random() < 0.05:
        return "<think>" + thought
    action = "press 0" if draw.random() < 0.1 else "go north"
    return write_turn(thought, omit, action=action)


@pytest.fixture(scope="session")
def lab() -> SimpleNamespace:
    """The names above, for test modules."""
    return SimpleNamespace(
        Endless=Endless,
        played=played,
        random_output=random_output,
        transcript=vault_transcript,
    )


@pytest.fixture(scope="session")
def omitter():
    """A small model that has seen a few demonstrations: it writes the format and leaves out."""
    env, draw = Vault(), random.Random(0)
    words = vault_words(env)
    transcript = vault_transcript(env)
    model = TinyGPT(len(words), d=32, layers=1, heads=2, ctx=160)
    shown = [
        segment
        for seed in range(100)
        for segment in demonstrate(env, seed, lambda rooms: cold_omissions(draw, rooms), transcript)
    ]
    optimizer = torch.optim.AdamW(model.parameters())
    fit(model, (draw.sample(shown, 6) for _ in range(160)), [1e-2] * 160, optimizer=optimizer)
    return model, transcript
