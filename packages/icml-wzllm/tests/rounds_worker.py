"""Expert iteration that a test kills: writes the hash of the weights that it ends in."""

import sys
from hashlib import sha256
from pathlib import Path

import torch

from icml.core.models.tiny import TinyGPT
from icml.wzllm.training.learner import Learner, Writing
from icml.wzllm.training.normal import Guard
from icml.wzllm.training.rounds import Rounds, expert_iteration
from icml.wzllm.training.rows import LONGEST, VOCABULARY, answer_ids, answer_text, proves
from icml.wzllm.training.rows import split as divide

WRITING = Writing(lambda row: row.prompt_ids, answer_ids, answer_text, LONGEST, eos_id=2)
CONFIG = Rounds(rounds=3, steps=40, learning_rate=3e-3, samples=16, temperature=1.5, chunk=8)


PARTS = divide(8, held_out=20, given=24, seed=0)
GIVEN = [(row, row.truth) for row in PARTS.seed_rows]


def learner(seed=0, steps=60):
    """Make a model that has learnt a little."""
    model = TinyGPT(len(VOCABULARY), d=16, layers=1, heads=2, ctx=16, seed=seed)
    found = Learner(model, WRITING)
    found.fit(GIVEN, steps, learning_rate=1e-2, seed=seed)
    return found


def run(folder, *, judge=proves, config=CONFIG, learn=None):
    """Train and return what came out."""
    return expert_iteration(
        learn or learner(), PARTS.pool, GIVEN, judge, config,
        guard=Guard(row.identity for row in PARTS.held_out), seed=5, folder=folder,
    )  # fmt: skip


def weights(learn):
    """Return the weights' hash."""
    flat = torch.cat([p.detach().flatten() for p in learn.model.parameters()])
    return sha256(flat.numpy().tobytes()).hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(1)
    learn = learner()
    done = run(Path(sys.argv[1]), learn=learn)
    print(weights(learn), *(tuple(r) for r in done.rounds), sep="\n")
