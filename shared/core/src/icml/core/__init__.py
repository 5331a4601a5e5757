"""What two or more icml-* packages need: experiments, reports, RL loops, model I/O.

Each room is a module of its own (`icml.core.experiment`, `icml.core.rl`, …); importing
this package imports none of them.
"""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    # On demand: reading the metadata costs more than the rest of `icml --help`.
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("icml-core")
