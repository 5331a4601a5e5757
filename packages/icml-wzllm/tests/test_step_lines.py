from icml.wzllm.training.step_lines import HEADS, cells


def test_each_number_ends_where_its_head_does() -> None:
    logs = {
        "rewards/proof/mean": 0.5, "completions/mean_length": 12.0,
        "dapo/generated": 8.0, "dapo/dead": 3.0, "dapo/given_up": 1.0,
    }  # fmt: skip
    line = cells(logs)
    assert line is not None
    for head, number in zip(("proved", "tokens", "groups drawn", "dead", "given up"),
                            ("0.500", "12.0", "8.0", "3.0", "1.0"), strict=True):  # fmt: skip
        assert HEADS.index(head) + len(head) == line.index(number) + len(number)
