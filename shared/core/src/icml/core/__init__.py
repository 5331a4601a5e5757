"""What two or more icml-* packages need: experiments, reports, RL loops, model I/O.

Each room is a module of its own (`icml.core.experiment`, `icml.core.rl`, …); importing
this package imports none of them.
"""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("icml-core")
