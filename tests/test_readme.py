from tools import readme


def claim(**changes: object) -> dict:
    base = {"statement": "a | b", "value": 1.2345, "interval": [1, 2], "holds": True}
    return {**base, "kind": "required", **changes}


def test_every_claim_is_shown_with_its_interval_and_outcome() -> None:
    summary = {
        "command": "icml a reproduce",
        "claims": [
            claim(),
            claim(holds=False, interval=None),
            claim(holds=False, kind="reported"),
        ],
        "timing": {"wall_seconds": 90.0, "peak_memory_mb": 812.3},
    }
    assert readme.claims_table(summary) == [
        "| claim | value | interval | outcome |",
        "| --- | --- | --- | --- |",
        r"| a \| b | 1.23 | 1 to 2 | holds |",
        r"| a \| b | 1.23 | exact | FAILED |",
        r"| a \| b | 1.23 | 1 to 2 | not supported at this scale |",
        "",
        "`icml a reproduce`: 90 s, 812 MB at most.",
    ]


def test_a_package_without_a_shipped_run_has_no_summary(tmp_path) -> None:
    assert readme.shipped_summary(tmp_path) is None


def test_python_blocks_are_found_and_others_left_out(tmp_path) -> None:
    file = tmp_path / "README.md"
    file.write_text("```bash\nls\n```\n\n```python\nx = 1\ny = 2\n```\n```python\nz = 3\n```\n")
    assert readme.python_blocks(file) == ["x = 1\ny = 2\n", "z = 3\n"]
