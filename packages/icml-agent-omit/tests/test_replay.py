import json
import zipfile

import pytest

from icml.agent_omit import logs
from icml.agent_omit.cli import ReplayOptions
from icml.agent_omit.cli import replay as command
from icml.agent_omit.replay import count_words, replay, standard_rules, token_counter
from icml.agent_omit.rules import KeepLast, NoThought
from icml.core.errors import UserError

EPISODE = [
    {"role": "user", "content": "find the key"},
    {"role": "assistant", "content": "<think>look first</think>look"},
    {"role": "user", "content": "a dark room with a chest and a lamp and a very long wall"},
    {"role": "assistant", "content": "<think>the chest may hold it</think>open chest"},
    {"role": "user", "content": "the key is in the chest"},
    {"role": "assistant", "content": "<think>there it is</think>take key"},
]


def call_of(length):
    response = {"choices": [{"message": EPISODE[length]}], "api_key": "sk-secret"}
    return {"request": {"messages": EPISODE[:length]}, "response": response}


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "log.jsonl", {"messages": EPISODE}, {"messages": EPISODE[:4]})


def test_the_saving_of_a_rule_is_the_difference_of_prompts_made_by_hand(log):
    found = replay([log], rules=[KeepLast(1)], count=lambda text: len(text.split()))
    full, kept = found.sums.values()
    # In the third turn the 14 words of the second observation are one: the only change.
    assert full.total - kept.total == 13
    assert (found.episodes, found.lengths) == (2, [2, 2, 1])
    assert found.saved("keep the last observation") == pytest.approx(13 / full.total)


def test_no_thoughts_saves_what_was_written_and_what_was_read_again(log):
    found = replay([log], rules=[NoThought()], count=lambda text: len(text.split()))
    full, none = found.sums.values()
    assert full.output - none.output == (2 + 5 + 3) + (2 + 5)
    assert full.prompt - none.prompt == (2 * 2 + 5) + 2


@pytest.mark.parametrize(
    "lines",
    [
        [EPISODE],
        [{"history": EPISODE}],
        EPISODE,
        [call_of(1), call_of(3), call_of(5)],
        [{"messages": EPISODE[:n]} for n in (2, 4, 6)],
    ],
)
def test_every_layout_of_a_log_holds_the_same_episode(tmp_path, lines):
    plain = replay([write(tmp_path / "plain.jsonl", {"messages": EPISODE})])
    assert replay([write(tmp_path / "other.jsonl", *lines)]).sums == plain.sums
    (tmp_path / "list.json").write_text(json.dumps(lines))
    assert replay([tmp_path / "list.json"]).sums == plain.sums


def test_two_equal_episodes_are_two(tmp_path):
    assert replay([write(tmp_path / "a.jsonl", EPISODE, EPISODE)]).episodes == 2


def test_the_report_says_that_it_knows_nothing_of_success(log, capsys):
    command(ReplayOptions((log,)))
    printed = capsys.readouterr().out
    assert "These are tokens, not success" in printed
    assert "no middle thoughts" in printed
    assert printed.startswith("2 episodes, 5 turns, ")


def test_what_cannot_be_read_is_counted_and_never_shown(tmp_path, capsys):
    path = write(
        tmp_path / "log.jsonl",
        EPISODE,
        {"messages": [{"role": "sk-secret", "content": "sk-secret"}]},
        {"api_key": "sk-secret"},
        3,
    )
    deep = b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    with path.open("ab") as file:
        file.write(b'{"messages": "\xff sk-secret"}\n' + deep)
        file.write(b'{"messages": [' + b"9" * 10_000 + b"]}\n" + b"sk-secret\n")
        file.write(b'{"messages": [{"role": "user", "content": "sk-secr')
    command(ReplayOptions((path,)))
    printed = capsys.readouterr().out
    assert "sk-" not in printed
    for reason in ("role is none of", "no list of messages", "neither an object", "not UTF-8"):
        assert f"skipped 1: a {'message' if 'role' in reason else 'line'}" in printed
        assert reason in printed
    assert "skipped 2: a line is not JSON (first: line 7)" in printed
    assert "nested too deeply (first: line 6)" in printed
    assert "the last line is cut off (first: line 9)" in printed


def test_values_nested_deeply_inside_a_message_are_skipped(tmp_path):
    arguments = json.loads("[" * 900 + "]" * 900)
    calls = [{"name": "f", "arguments": arguments}]
    bad = [EPISODE[0], {"role": "assistant", "content": "", "tool_calls": calls}]
    found = replay([write(tmp_path / "log.jsonl", EPISODE, bad)])
    assert found.episodes + sum(found.skipped.values()) == 2


def test_a_line_longer_than_memory_allows_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MOST_BYTES", 2 << 20)
    path = write(tmp_path / "log.jsonl", ["x" * (5 << 20)], EPISODE)
    found = replay([path])
    assert found.episodes == 1
    assert found.skipped == {"a line is longer than 2 MiB": 1}


def test_surrogates_that_no_tokenizer_takes_are_counted_all_the_same(tmp_path):
    from icml.core.models.tiny import word_tokenizer

    word_tokenizer(["find", "the", "key"]).backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    count = token_counter(str(tmp_path / "tokenizer.json"))
    assert count("find \ud800 the key") == 4


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("a.jsonl", b"\x00\x01\x02", "is no text"),
        ("a.jsonl", b"", "no episode of an agent .*it is empty"),
        ("a.jsonl", b"hello\n", r"no episode of an agent .*not JSON \(1\)"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b'{"a": 1}', "no list of messages"),
        ("a.eval", b"PK\x03\x04 cut", "cut off or no .eval log"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_sentence(tmp_path, name, data, complaint):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UserError, match=complaint) as refused:
        replay([path])
    assert "\n" not in str(refused.value)


def test_paths_without_a_file_are_refused(tmp_path):
    with pytest.raises(UserError, match="is no file"):
        replay([tmp_path / "none.jsonl"])
    with pytest.raises(UserError, match="is a folder"):
        replay([tmp_path])
    with pytest.raises(UserError, match="there is no tokenizer file"):
        token_counter(str(tmp_path / "none.json"))


def inspect_log(sample_ids):
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageTool,
        ChatMessageUser,
        ContentReasoning,
        ContentText,
    )
    from inspect_ai.tool import ToolCall

    calls = [ToolCall(id="1", function="read", arguments={"path": "a.txt"})]
    said = [ContentReasoning(reasoning="a b c"), ContentText(text="i look")]
    messages = [
        ChatMessageUser(content="read a.txt"),
        ChatMessageAssistant(content=said, tool_calls=calls),
        ChatMessageTool(content="word " * 200, tool_call_id="1", function="read"),
        ChatMessageAssistant(content="done"),
    ]
    spec = EvalSpec(
        created="2026-01-01T00:00:00+00:00",
        task="t",
        dataset=EvalDataset(samples=1, sample_ids=sample_ids),
        model="none/none",
        config=EvalConfig(),
    )
    sample = EvalSample(id=1, epoch=1, input="read a.txt", target="", messages=messages)
    return EvalLog(eval=spec, samples=[sample], status="success")


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
@pytest.mark.parametrize("sample_ids", [[1], None])  # older logs don't list them
def test_logs_of_inspect_ai_are_read_by_its_reader(tmp_path, name, sample_ids):
    from inspect_ai.log import write_eval_log

    write_eval_log(inspect_log(sample_ids), str(tmp_path / name))
    found = replay([tmp_path / name], rules=standard_rules(1))
    assert (found.episodes, found.lengths) == (1, [1, 1])
    split = found.sums["nothing left out"].split
    assert split["observation"] == 200 + 4
    assert split["thought"] == (3 + 2) + 2  # the reasoning is written once, the text read again


def test_an_archive_that_would_unpack_to_gigabytes_is_refused(tmp_path, monkeypatch):
    from icml.agent_omit import inspect_logs

    monkeypatch.setattr(inspect_logs, "MOST_UNPACKED", 1000)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1.json", "0" * 100_000)
    with pytest.raises(UserError, match="100000 bytes unpacked, more than 1000"):
        replay([tmp_path / "log.eval"])


def test_an_archive_that_is_no_log_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("note.txt", "hello")
    with pytest.raises(UserError, match="no log that inspect-ai can read"):
        replay([tmp_path / "log.eval"])


@pytest.mark.parametrize("source", ["", "./missing", "/missing", "~/missing", "runs/omit/missing"])
def test_a_folder_that_is_not_there_is_not_looked_up_on_the_hub(source):
    with pytest.raises(UserError, match="there is no such folder, and it is no hub id"):
        token_counter(source)


def test_words_and_marks_are_what_counts_without_a_tokenizer():
    assert count_words('{"cmd": "ls -R"}') == 11
    assert count_words("") == 0


@pytest.mark.parametrize("bad", [{"keep_last": 0}, {"turns": 1}])
def test_options_out_of_range_are_refused(tmp_path, bad):
    with pytest.raises(ValueError, match="must be >="):
        ReplayOptions((tmp_path,), **bad)


def test_a_log_that_is_named_twice_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("[]\n")
    with pytest.raises(UserError, match="are the same log: name it once"):
        replay([tmp_path / "a.jsonl", tmp_path / "x" / ".." / "a.jsonl"])


def test_a_name_that_neither_cache_nor_hub_knows_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="the hub has no such model or can't be reached"):
        token_counter("no-such-model-of-anybody")
