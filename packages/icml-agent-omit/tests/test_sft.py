import json
import warnings

import pytest

from icml.agent_omit.agents import plain_transcript
from icml.agent_omit.babyai import babyai_words, expert_thought
from icml.agent_omit.experts import expert_episode
from icml.agent_omit.rules import Random, omissions
from icml.agent_omit.sft import read_rows, segment_rows, sft_trainer, write_rows
from icml.core.envs.babyai import BabyAI
from icml.core.errors import UserError
from icml.core.models.tiny import causal_lm

TOKENIZER = babyai_words(16).tokenizer()


def demonstrate(seeds, *, commands=False):
    env, transcript = BabyAI("GoToObjS4", max_steps=16), plain_transcript(TOKENIZER)
    return [
        expert_episode(
            env,
            seed,
            expert_thought,
            transcript=transcript,
            plan=lambda turns, seed=seed: omissions(Random(0.4), turns, episode=seed),
            commands=commands,
        )
        for seed in seeds
    ]


def trainer_of(rows, folder, **options):
    from trl import SFTConfig

    warnings.filterwarnings("ignore", category=FutureWarning)
    config = SFTConfig(
        str(folder),
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=4,
        max_length=None,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        activation_checkpointing=False,
        **options,
    )
    return sft_trainer(causal_lm(len(TOKENIZER), d=32, ctx=1024), TOKENIZER, rows, config)


@pytest.mark.parametrize("commands", [False, True])
def test_the_labels_are_the_output_tokens_each_once_and_nothing_else(tmp_path, commands):
    episodes = demonstrate(range(6), commands=commands)
    trainer = trainer_of(segment_rows(episodes), tmp_path)
    learnt = []
    for batch in trainer.get_train_dataloader():
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            kept = labels != -100
            assert (labels[kept] == ids[kept]).all()
            # A run of labels is one output; what stands before it is what its author saw.
            edges = (kept.int().diff(prepend=kept.new_zeros(1).int()) != 0).nonzero()[:, 0].tolist()
            for start, end in zip(edges[::2], [*edges[1::2], len(ids)], strict=False):
                learnt.append((tuple(ids[:start].tolist()), tuple(ids[start:end].tolist())))
    steps = [step for episode in episodes for step in episode.steps]
    seen = [(tuple(step.prompt_ids), tuple(step.response_ids)) for step in steps]
    assert sorted(learnt) == sorted(seen)


def test_what_is_left_out_by_command_stays_out_when_the_outputs_are_read_again():
    (episode,) = demonstrate([3], commands=True)
    transcript = plain_transcript(TOKENIZER)
    context = transcript.begin_context(episode.observations[0].task)
    responses = []
    for seen, step in zip(episode.observations, episode.steps, strict=False):
        context.add_observation(seen.text)
        assert transcript.prompt(context, responses, context.omitted) == step.prompt_ids
        context.add_output(transcript.decode(step.response_ids))
        responses.append(step.response_ids)
    gone = omissions(Random(0.4), len(episode.steps), episode=3).gone
    assert context.omitted == {number for number, turn in gone.items() if turn <= len(responses)}


def test_an_experts_episode_succeeds_and_acts_as_the_expert():
    for episode in demonstrate(range(5)):
        assert episode.success
        assert episode.total_reward > 0


def test_a_short_training_run_lowers_the_loss(tmp_path):
    trainer = trainer_of(
        segment_rows(demonstrate(range(8))), tmp_path, max_steps=12, learning_rate=1e-2
    )
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[0] > 4.5  # near log(180), where a random model starts
    assert losses[-1] < losses[0] - 1  # a nat a token less


def test_rows_that_would_be_cut_or_are_of_another_tokenizer_are_refused(tmp_path):
    from trl import SFTConfig

    rows = segment_rows(demonstrate([0]))
    config = SFTConfig(str(tmp_path), use_cpu=True, bf16=False, max_length=20)
    model = causal_lm(len(TOKENIZER))
    with pytest.raises(UserError, match="and max_length is 20: it would be cut"):
        sft_trainer(model, TOKENIZER, rows, config)
    config.max_length = None
    with pytest.raises(UserError, match="made with another tokenizer"):
        sft_trainer(causal_lm(50), TOKENIZER, rows, config)
    config.packing = True
    with pytest.raises(UserError, match="packing joins rows"):
        sft_trainer(model, TOKENIZER, rows, config)


def test_rows_survive_a_file(tmp_path):
    rows = segment_rows(demonstrate([0, 1]))
    write_rows(tmp_path / "rows.jsonl", rows)
    assert read_rows(tmp_path / "rows.jsonl") == rows


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ("3", "lists of one length"),
        (json.dumps({"input_ids": [1, 2], "completion_mask": [1]}), "lists of one length"),
        (json.dumps({"input_ids": [1.5], "completion_mask": [1]}), "must be token ids"),
        (json.dumps({"input_ids": [-1], "completion_mask": [1]}), "must be token ids"),
        (json.dumps({"input_ids": [1], "completion_mask": [0]}), "with a 1 for what is learnt"),
        ("", "no rows"),
    ],
)
def test_a_file_that_holds_no_rows_is_refused(tmp_path, line, complaint):
    (tmp_path / "rows.jsonl").write_text(line)
    with pytest.raises(UserError, match=complaint):
        read_rows(tmp_path / "rows.jsonl")
    with pytest.raises(UserError, match="can't read"):
        read_rows(tmp_path / "none.jsonl")
