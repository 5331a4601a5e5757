"""Which icml distributions are installed, and which commands they bring."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "icml.commands"


def papers() -> dict[str, EntryPoint]:
    """Return the entry point of every installed paper by command name, sorted.

    Nothing is imported. Of two distributions that claim one name the first found is listed;
    `rivals` tells both.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found.setdefault(point.name, point)
    return found


def rivals(name: str) -> list[str]:
    """Return the distributions that register ``name``, one for each different target."""
    owners = {point.value: distribution(point) for point in entry_points(group=GROUP, name=name)}
    return sorted(owners.values())


def distribution(point: EntryPoint) -> str:
    """Return the name and version of the distribution that an entry point comes from."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def summary(point: EntryPoint) -> str:
    """Return the one-line description in the metadata of the entry point's distribution."""
    return str(point.dist.metadata.json.get("summary", "")) if point.dist else ""
