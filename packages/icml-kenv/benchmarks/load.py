"""Load: sessions that poll a server on this machine at a fixed rate, each over its own connection.

``python benchmarks/load.py`` starts ``icml kenv serve`` with recorded consoles, opens 50 sessions
with a run each and asks for these runs 500 times a second for 30 s; ``--out FILE`` writes what it
measured as JSON. Requests are due at fixed times, and a latency counts from when its request was
due, so that a server that falls behind is not spared. Load and server share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from icml.core.journal import write_atomic
from icml.kenv.client import Client

BUG = "phonet-autobind"
DIFF = "--- a/net/Makefile\n+++ b/net/Makefile\n@@ -1 +1 @@\n-a\n+b\n"  # refused: nothing boots


async def poll(
    address: tuple[str, int], request: bytes, due: list[float], seen: list[float]
) -> int:
    """Send a request at each of the times, and return how many got something else than 200."""
    errors = 0
    reader, writer = await asyncio.open_connection(*address)
    for when in due:
        await asyncio.sleep(max(0.0, when - time.monotonic()))
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            body = await reader.readexactly(int(length))
            errors += not (head.startswith(b"HTTP/1.1 200 ") and b'"state":"done"' in body)
            seen.append(time.monotonic() - when)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            errors += 1
            reader, writer = await asyncio.open_connection(*address)
    writer.close()
    return errors


async def load(url: str, clients: list[Client], rate: float, seconds: float) -> dict[str, float]:
    """Poll from all sessions at once and return what came of it."""
    host, _, port = url.removeprefix("http://").partition(":")
    runs = [client.wait(client.run(DIFF).run_id).run_id for client in clients]
    start = time.monotonic() + 1
    seen: list[float] = []
    each = rate / len(clients)
    polls = []
    for number, (client, run_id) in enumerate(zip(clients, runs, strict=True)):
        request = (
            f"GET /v1/runs/{run_id} HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {client.token}\r\n\r\n"
        )
        offset = number / rate
        due = [start + offset + turn / each for turn in range(int(seconds * each))]
        polls.append(poll((host, int(port)), request.encode(), due, seen))
    errors = sum(await asyncio.gather(*polls))
    spent = time.monotonic() - start
    hundredths = statistics.quantiles(seen, n=100)
    return {
        "sessions": len(clients),
        "wanted polls/s": rate,
        "polls/s": len(seen) / spent,
        "seconds": spent,
        "polls": len(seen),
        "errors": errors,
        "p50 (ms)": 1000 * hundredths[49],
        "p99 (ms)": 1000 * hundredths[98],
        "largest (ms)": 1000 * max(seen),
    }


def measure(sessions: int, rate: float, seconds: float) -> dict[str, float]:
    """Start a server, put it under load, and return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        icml = str(Path(sys.executable).with_name("icml"))
        command = [icml, "kenv", "serve", "--port", "0", "--backend", "replay", "--out", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            url = next(line.split()[-1] for line in lines if line.startswith("serving on "))
            operator = Client(url, token=(Path(folder) / "operator-token").read_text().strip())
            opened = [operator.open_session(BUG) for _ in range(sessions)]
            clients = [Client(url, token=o.token, session=o.session_id) for o in opened]
            found = asyncio.run(load(url, clients, rate, seconds))
            server.terminate()
    processors = len(os.sched_getaffinity(0))
    return {**found, "processors": processors, "load before": os.getloadavg()[1]}


def main() -> int:
    """Print the numbers, write them where ``--out`` says, and fail if a poll failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--rate", type=float, default=500, help="polls a second, all sessions")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    found = measure(options.sessions, options.rate, options.seconds)
    for name, value in found.items():
        print(f"{name:<16} {value:10.1f}")
    if options.out is not None:
        write_atomic(options.out, json.dumps(found, indent=1) + "\n")
    return 1 if found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
