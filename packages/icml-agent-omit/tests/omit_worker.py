"""Trains a small model in the vault; as a program it kills itself, as a full machine would."""

import os
import signal
import sys
from pathlib import Path

import torch

from icml.agent_omit.loop import train_omission
from icml.agent_omit.reward import OmissionReward
from icml.agent_omit.transcript import OmitTranscript
from icml.agent_omit.vault import Vault
from icml.agent_omit.words import BOS, vault_words
from icml.core.models.tiny import TinyGPT
from icml.core.rl.loop import LoopConfig
from icml.core.rl.rollout import EnvTask

ENV = Vault(turns=3)
WORDS = vault_words(ENV)
TRANSCRIPT = OmitTranscript(WORDS.encode, WORDS.decode, begin=(BOS,), tell_task=False)
CONFIG = LoopConfig(
    iterations=5, max_new_tokens=6, prompts_per_iteration=2, group_size=3, learning_rate=1e-2,
    kl_beta=0.1, eos_id=WORDS.closing_id, checkpoint_every=2,
)  # fmt: skip


class Graded(OmissionReward):
    """Pays for the length of outputs too, so that a model that knows nothing has something."""

    def __call__(self, episode, *, mean_thought=0.0):
        parts = super().__call__(episode, mean_thought=mean_thought)
        return parts._replace(total=parts.total + episode.output_tokens / 10)


def tasks(generator, count):
    return [EnvTask(n) for n in torch.randint(1000, (count,), generator=generator).tolist()]


def run(folder, *, death=None, after=0, seed=0, config=CONFIG, **options):
    """Train; call ``death`` when ``after`` environments have been made."""
    model, rows, made = TinyGPT(len(WORDS), d=16, layers=1, heads=2, ctx=99), [], iter(range(after))

    def environment(task):
        if death is not None and next(made, None) is None:
            death()
        return Vault(turns=3)

    train_omission(
        model, tasks, environment, options.pop("reward", Graded()), config, transcript=TRANSCRIPT,
        max_turns=3, seed=seed, checkpoint=folder,
        log=lambda step, **metrics: rows.append((step, metrics)), **options,
    )  # fmt: skip
    return model, rows


if __name__ == "__main__":
    run(Path(sys.argv[1]), death=lambda: os.kill(os.getpid(), signal.SIGKILL), after=20)
