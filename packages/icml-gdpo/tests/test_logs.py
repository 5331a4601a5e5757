"""Logs as TRL writes them, and files that are none."""

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml.core.errors import UserError
from icml.gdpo.audit.logs import read_log, trl_logged_batches

DATA = Path(__file__).parent / "data" / "trl-completions"
REWARDS = ["ans", "fmt", "length"]


def rows(step=1, prompts="aabb", rewards=(0.0, 1.0, None, 0.5)):
    return [
        {"step": step, "prompt": p, "completion": f"c{i}", "r": r, "advantage": 0.25}
        for i, (p, r) in enumerate(zip(prompts, rewards, strict=True))
    ]


def write_jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_csv(path, records):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return path


def write_parquet(path, records):
    pq.write_table(pa.Table.from_pylist(records), path)
    return path


WRITERS = {".jsonl": write_jsonl, ".csv": write_csv, ".parquet": write_parquet}


def refused(path, message, rewards=("r",), group_size=2):
    with pytest.raises(UserError, match=message) as caught:
        read_log([path], list(rewards), group_size=group_size)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def outcome(path, rewards, group_size):
    """What a user would see; anything but a UserError is raised."""
    try:
        return f"{len(read_log([path], rewards, group_size=group_size).batches)} batches"
    except UserError as error:
        return str(error)


def test_real_log_has_three_generation_batches_each_twice():
    log = read_log([DATA], REWARDS, group_size=8)
    assert log.found == 6
    assert [batch.step for batch in log.batches] == [1, 3, 5]
    assert all(batch.has_prompts for batch in log.batches)


def test_package_data_is_the_real_log():
    log = read_log([DATA], REWARDS, group_size=8)
    for ours, real in zip(trl_logged_batches(), log.batches, strict=True):
        assert (ours.step, ours.rewards, ours.advantages) == (real[1], real[2], real[3])


@pytest.mark.parametrize("suffix", WRITERS)
def test_formats_give_the_same_batches(tmp_path, suffix):
    path = WRITERS[suffix](tmp_path / f"log{suffix}", rows() + rows(2, rewards=(1, 1, 0, 0)))
    log = read_log([path], ["r"], group_size=2)
    assert [batch.step for batch in log.batches] == [1, 2]
    column = [row[0] for row in log.batches[0].rewards]
    assert math.isnan(column.pop(2))
    assert column == [0.0, 1.0, 0.5]
    assert log.batches[1].advantages == [0.25] * 4


def test_repeated_batch_is_dropped_and_a_later_one_like_it_is_not(tmp_path):
    other = rows(3, rewards=(1, 1, 1, 0))
    path = write_jsonl(tmp_path / "log.jsonl", rows(1) + rows(2) + other + rows(4))
    log = read_log([path], ["r"], group_size=2)
    assert (log.found, [batch.step for batch in log.batches]) == (4, [1, 3, 4])


def test_same_rewards_with_another_completion_are_another_batch(tmp_path):
    second = [row | {"completion": "else"} for row in rows(2)]
    path = write_jsonl(tmp_path / "log.jsonl", rows(1) + second)
    assert len(read_log([path], ["r"], group_size=2).batches) == 2


def test_one_prompt_may_stand_in_two_groups(tmp_path):
    path = write_jsonl(tmp_path / "log.jsonl", rows(prompts="aaaa"))
    assert len(read_log([path], ["r"], group_size=2).batches) == 1


def test_log_of_rewards_alone_is_enough(tmp_path):
    path = write_jsonl(tmp_path / "log.jsonl", [{"r": 1}, {"r": 0}, {}, {"r": None}])
    (batch,) = read_log([path], ["r"], group_size=2).batches
    assert batch.rewards[:2] == [[1.0], [0.0]]
    assert all(math.isnan(row[0]) for row in batch.rewards[2:])
    assert (batch.step, batch.advantages, batch.has_prompts) == (None, None, False)


def test_json_lines_may_start_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"r": 1}\r\n{"r": 0}\r\n')
    assert read_log([path], ["r"], group_size=2).batches[0].rewards == [[1.0], [0.0]]


def test_reading_parquet_leaves_no_thread_behind(tmp_path):
    # Arrow's threads have no Python object; the kernel counts them.
    code = (
        "import os, sys; from pathlib import Path; import pyarrow.parquet\n"
        "from icml.gdpo.audit.readers import read_rows\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "assert read_rows(Path(sys.argv[1]), ['ans', 'fmt']).rows\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    file = DATA / "completions_00001.parquet"
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_long_completions_fit_into_csv(tmp_path):
    long = [row | {"completion": "x" * 200_000} for row in rows()]
    before = csv.field_size_limit()
    path = write_csv(tmp_path / "log.csv", long)
    assert len(read_log([path], ["r"], group_size=2).batches) == 1
    assert csv.field_size_limit() == before


def test_prompt_that_changes_inside_a_group_is_refused(tmp_path):
    path = write_jsonl(tmp_path / "log.jsonl", rows(prompts="aaab"))
    refused(path, r"step 1: the prompt changes at completion 4, inside a group of 2")
    refused(path, r"completion 4, inside a group of 4", group_size=4)


def test_rows_must_fill_the_groups(tmp_path):
    path = write_jsonl(tmp_path / "log.jsonl", rows())
    refused(path, r"4 completions are not a multiple of the group size 3", group_size=3)


@pytest.mark.parametrize("suffix", WRITERS)
def test_unknown_column_is_refused_with_those_there_are(tmp_path, suffix):
    path = WRITERS[suffix](tmp_path / f"log{suffix}", rows())
    refused(path, r"no column 'q'; there are: step, prompt, completion, r, advantage", ["r", "q"])


@pytest.mark.parametrize("rewards", [[], ["r", "r"]])
def test_reward_columns_are_named_once_each(rewards):
    with pytest.raises(UserError, match="reward columns must be named, each once"):
        read_log([DATA], rewards, group_size=8)


def test_group_size_is_at_least_one():
    with pytest.raises(UserError, match="group size must be at least 1"):
        read_log([DATA], REWARDS, group_size=0)


HOSTILE_LINES = {
    "junk": (b'{"r": 1}\nnot json\n', "line 2: not readable JSON"),
    "list": (b"[1, 2]\n", "line 1: not a JSON object"),
    "deep": (b"[" * 100_000 + b"\n", "line 1: not readable JSON"),
    "digits": (b'{"r": ' + b"9" * 5000 + b"}\n", "line 1: not readable JSON"),
    "huge": (b'{"r": 1' + b"0" * 400 + b'}\n{"r": 0}\n', "column 'r': the number is too large"),
    "infinity": (b'{"r": Infinity}\n{"r": 0}\n', "must be finite, got inf"),
    "text": (b'{"r": "good"}\n{"r": 0}\n', "completion 1, column 'r': 'good' is not a number"),
    "nested": (b'{"r": [1]}\n{"r": 0}\n', r"'\[1\]' is not a number"),
    "code": (b'{"r": "__import__(\'os\')"}\n{"r": 0}\n', "is not a number"),
    "step": (b'{"r": 1, "step": 1.5}\n{"r": 0}\n', "column 'step': 1.5 is not a whole number"),
    "advantage": (b'{"r": 1, "advantage": "x"}\n{"r": 0}\n', "column 'advantage'"),
    "bytes": (b'{"r": 1}\n\xff\xfe\n', "not UTF-8 text"),
    "empty": (b"", "no column 'r'; there are: none"),
    "blank": (b"\n  \n", "no column 'r'"),
}


@pytest.mark.parametrize("name", HOSTILE_LINES)
def test_hostile_json_lines_are_refused_with_one_sentence(tmp_path, name):
    content, message = HOSTILE_LINES[name]
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    refused(path, message)


HOSTILE_CSV = {
    "text": (b"r,step\n0,1\ngood,1\n", "completion 2, column 'r': 'good' is not a number"),
    "short": (b"r,step\n0\n", "row 1: 1 cells under 2 column names"),
    "twins": (b"r,r\n0,1\n", "two columns are named 'r'"),
    "quote": (b'r\n"0\n', "not readable CSV"),
    "zero": (b"r\n\x00\n0\n", "NUL|not a number"),
    "bytes": (b"r\n\xff\n", "not UTF-8 text"),
    "empty": (b"", "no column 'r'; there are: none"),
    "header": (b"r,step\n", "no completions in"),
    "infinity": (b"r\n1e999\n0\n", "must be finite, got inf"),
}


@pytest.mark.parametrize("name", HOSTILE_CSV)
def test_hostile_csv_is_refused_with_one_sentence(tmp_path, name):
    content, message = HOSTILE_CSV[name]
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    refused(path, message)


@pytest.mark.parametrize("cut", [0, 4, 100, 4000, 7700])
def test_truncated_parquet_is_refused_with_one_sentence(tmp_path, cut):
    path = tmp_path / "log.parquet"
    path.write_bytes((DATA / "completions_00001.parquet").read_bytes()[:cut])
    refused(path, "not a readable Parquet file", REWARDS, 8)


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 7798), st.integers(1, 255))
def test_damaged_parquet_is_read_or_refused(tmp_path, place, change):
    content = bytearray((DATA / "completions_00003.parquet").read_bytes())
    content[place] ^= change
    path = tmp_path / "log.parquet"
    path.write_bytes(content)
    assert "\n" not in outcome(path, REWARDS, group_size=8)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([".jsonl", ".csv"]), st.binary(max_size=60))
def test_any_bytes_after_a_good_start_are_read_or_refused(tmp_path, suffix, tail):
    start = {".jsonl": b'{"r": 1}\n', ".csv": b"r\n1\n"}[suffix]
    path = tmp_path / f"log{suffix}"
    path.write_bytes(start + tail)
    assert len(outcome(path, ["r"], group_size=1).splitlines()) == 1


def test_missing_files_and_other_formats_are_refused(tmp_path):
    refused(tmp_path / "none.csv", "No such file")
    refused(tmp_path / "log.txt", r"a log ends in \.parquet, \.jsonl, \.csv")
    refused(tmp_path, "no .parquet, .jsonl, .csv file in this folder")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", "no .parquet, .jsonl, .csv file in this folder")
