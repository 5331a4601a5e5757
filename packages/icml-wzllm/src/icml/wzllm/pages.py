"""A page for each proof of the experiment: statement, recurrence, certificate, kernel, cost."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from icml.core.journal import write_atomic
from icml.wzllm.certificate import Certificate
from icml.wzllm.show import recurrence_text

__all__ = ["write_pages"]

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}dt{font-weight:600;margin-top:1rem}dd{margin:0}"
    "code,pre{font:14px/1.45 ui-monospace,monospace;white-space:pre-wrap;"
    "overflow-wrap:anywhere}a{color:#0b5cad}"
)


def write_pages(
    folder: Path,
    records: list[dict[str, Any]],
    kernel: Mapping[str, dict[str, Any]],
    costs: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> Path:
    """Write ``<id>.html`` for each record and ``index.html``; return the index.

    Args:
        folder: Where they go.
        records: What the symbolic part found.
        kernel: What the kernel said, by id.
        costs: Numbers by id, then by part ("prove", "verify", "kernel"), then by name.
    """
    for record in records:
        name = record["id"]
        facts = [*_symbolic_facts(record), *_kernel_facts(kernel.get(name))]
        facts += [
            (
                f"Cost of: {part}",
                ", ".join(f"{_unit(key, value)}" for key, value in numbers.items()),
            )
            for part, numbers in costs.get(name, {}).items()
        ]
        lean = (kernel.get(name) or {}).get("lean") or ""
        write_atomic(folder / f"{name}.html", _page(record, facts, lean))
    index = folder / "index.html"
    write_atomic(index, _index(records, kernel))
    return index


def _unit(name: str, value: float) -> str:
    return f"{value:.0f} MB of memory" if name == "memory_mb" else f"{value:.3g} s"


def _symbolic_facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("Status", f"{record['status']}. {record['detail']}".strip())]
    if wrong := record["counterexample"]:
        where = ", ".join(f"{name} = {value}" for name, value in wrong["values"].items())
        facts.append(("Counterexample", f"{where}: left {wrong['lhs']}, right {wrong['rhs']}"))
    if record["certificate"] is None:
        return facts
    certificate = record["certificate"]
    n, k = certificate["shift_var"], certificate["sum_var"]
    read = Certificate.from_json(_json(certificate))
    facts += [
        (f"Recurrence of the sum f({n})", recurrence_text(read)),
        (f"Certificate: G({n},{k}) = R F({n},{k}), R =", _ratio(certificate["certificate"])),
    ]
    if certificate["right"]:
        facts.append(("Certificate of the right side, R =", _ratio(certificate["right"])))
    bases = ", ".join(map(str, certificate["base_cases"])) or "none"
    facts.append(("Boundary B", " + ".join(certificate["boundary"])))
    facts.append((f"Base cases, {n} =", bases))
    facts.append(("Judge", "accepted" if record["verified"] else "not accepted"))
    return facts


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def _ratio(ratio: dict[str, str]) -> str:
    return ratio["num"] if ratio["den"] == "1" else f"({ratio['num']}) / ({ratio['den']})"


def _kernel_facts(said: dict[str, Any] | None) -> list[tuple[str, str]]:
    if said is None:
        return []
    if not said["accepted"]:
        return [("Kernel", f"no proof: {said['detail']}")]
    forged = f"{said['forged']} of {said['forgeries']} forgeries accepted"
    axioms = ", ".join(said["axioms"]) or "none"
    how = "verbatim" if said["verbatim"] else said["detail"]
    return [
        ("Kernel", f"accepted; axioms: {axioms}; {forged}"),
        ("Statement in Lean", said["statement"]),
        ("Said", how),
    ]


def _page(record: dict[str, Any], facts: list[tuple[str, str]], lean: str) -> str:
    shown = "".join(f"<dt>{escape(k)}</dt><dd><code>{escape(v)}</code></dd>" for k, v in facts)
    text = f"<h2>Proof</h2><pre>{escape(lean)}</pre>" if lean else ""
    body = f"<p><code>{escape(record['statement'])}</code></p><dl>{shown}</dl>{text}"
    return _html(record["name"], f'<p><a href="index.html">all identities</a></p>{body}')


def _index(records: list[dict[str, Any]], kernel: Mapping[str, dict[str, Any]]) -> str:
    lines = []
    for record in records:
        proved = kernel.get(record["id"], {}).get("accepted")
        status = "proved" if proved else record["status"]
        link = f'<a href="{record["id"]}.html">{escape(record["name"])}</a>'
        lines.append(
            f"<li>{link}: {escape(status)}<br><code>{escape(record['statement'])}</code></li>"
        )
    return _html("The 78 identities, a page each", f"<ol>{''.join(lines)}</ol>")


def _html(title: str, body: str) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
