"""GDPO (arXiv:2601.05242): normalise each reward within its group before summing."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("icml-gdpo")
