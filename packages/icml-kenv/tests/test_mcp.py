"""The MCP server, spoken to by the real client over standard input and output."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from icml.core.journal import Journal
from icml.core.testing import run_icml
from icml.core.testing.commands import ICML
from icml.kenv.bugs import load_bug
from icml.kenv.models import Patch
from icml.kenv.runner import evaluate
from icml.kenv.sources import cache_folder, derive_fix

pytest.importorskip("mcp")

SOURCE = "int f(int a)\n{\n\tBUG_ON(a);\n\treturn 0;\n}\n"


@pytest.fixture
def source():
    """Put a source of ours where the bug's kernel source is looked for."""
    bug = load_bug("phonet-autobind")
    folder = cache_folder() / "sources" / bug.source.version / bug.directory
    folder.mkdir(parents=True)
    (folder / "x.c").write_text(SOURCE)
    return folder


def talk(work, *options: str, backend: str = "replay"):
    """Start `icml kenv mcp`, let ``work`` use the client, and return what it returns."""
    from mcp import StdioServerParameters
    from mcp.client import Client
    from mcp.client.stdio import stdio_client

    arguments = [*ICML[1:], "kenv", "mcp", "phonet-autobind", "--backend", backend, *options]
    kept = {k: v for k, v in os.environ.items() if k in ("ICML_CACHE", "PATH", "HOME")}
    server = StdioServerParameters(command=ICML[0], args=arguments, env=kept)

    async def session():
        async with Client(stdio_client(server, errlog=sys.__stderr__)) as client:
            return await work(client)

    return asyncio.run(session())


async def said(client, tool: str, **arguments) -> str:
    return (await client.call_tool(tool, arguments)).content[0].text


def test_the_tools_tell_the_bug_and_take_edits_in_the_worktree(source, tmp_path) -> None:
    async def work(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["kenv_bug", "kenv_report", "kenv_run_kernel", "kenv_submit"]
        assert list(tools["kenv_run_kernel"].input_schema["properties"]) == ["diff"]
        bug = json.loads(await said(client, "kenv_bug"))
        assert bug["title"] == "kernel BUG in pn_socket_autobind"
        assert bug["sources"] == ["net/phonet/x.c"]
        assert (Path(bug["worktree"]) / "net/phonet/x.c").read_text() == SOURCE
        assert "kernel BUG at net/phonet/socket.c" in await said(client, "kenv_report")
        assert (await said(client, "kenv_run_kernel")).startswith("verdict: patch_empty\n")
        asm = SOURCE.replace("return 0;", '#include "/etc/passwd"')
        (Path(bug["worktree"]) / "net/phonet/x.c").write_text(asm)
        assert (await said(client, "kenv_run_kernel")).startswith("verdict: patch_rejected\n")
        out = await client.call_tool("kenv_run_kernel", {"diff": "another"})
        assert out.is_error
        assert "all 2 runs are used" in out.content[0].text
        handed = json.loads(await said(client, "kenv_submit"))
        assert (handed["kind"], handed["plausible"]) == ("patch_rejected", False)
        second = await client.call_tool("kenv_submit", {"diff": "another"})
        assert second.is_error
        assert "the first one counts" in second.content[0].text
        return json.dumps(bug)

    given = talk(work, "--max-runs", "2", "--worktree", str(tmp_path / "work"))
    assert "fix" not in json.loads(given)
    assert (tmp_path / "work/net/phonet/x.c").is_file()


def test_without_feedback_a_run_is_refused_and_an_own_worktree_goes_with_the_server(source) -> None:
    async def work(client):
        ended = await client.call_tool("kenv_run_kernel", {})
        assert ended.is_error
        assert "gives no feedback" in ended.content[0].text
        return json.loads(await said(client, "kenv_bug"))["worktree"]

    worktree = Path(talk(work, "--feedback", "none"))
    assert worktree.name == "worktree"
    assert not worktree.parent.exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["nothing"], "no bug 'nothing'"),
        (["phonet-autobind", "--max-runs", "0"], "must be at least 1"),
        (["phonet-autobind", "--backend", "replay"], "icml kenv fetch"),
    ],
)
def test_what_can_not_be_served_is_one_sentence(options, reason) -> None:
    ended = run_icml("kenv", "mcp", *options)
    assert ended.returncode == 2
    assert reason in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.kernel
@pytest.mark.slow
def test_a_client_gets_the_verdict_and_key_of_evaluate_and_the_second_boots_nothing(
    module, tmp_path
) -> None:
    bug = load_bug("phonet-autobind")
    fix, out = derive_fix(bug), tmp_path / "verdicts"

    async def work(client):
        told = await said(client, "kenv_run_kernel", diff=fix.diff)
        assert told.startswith("verdict: plausible\nruns left: 3\n")
        assert await said(client, "kenv_report") == "the last run gave no report"
        return json.loads(await said(client, "kenv_submit", diff=fix.diff))

    def boots() -> int:
        steps = [step for file in out.glob("*.jsonl") for step in Journal(file).read()]
        return sum(step["step"] == "run" for step in steps)

    first = talk(work, "--out", str(out), backend="module")
    assert boots() == 1 + 3
    same = evaluate(bug, Patch(diff=fix.diff), backend="module", folder=out)
    assert (first["kind"], first["key"], first["plausible"]) == ("plausible", same.key, True)
    assert talk(work, "--out", str(out), backend="module") == first
    assert boots() == 1 + 3
