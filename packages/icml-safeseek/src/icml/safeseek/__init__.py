"""SafeSeek: find the circuit that carries a behaviour, cut it out, or train around it."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("icml-safeseek")
