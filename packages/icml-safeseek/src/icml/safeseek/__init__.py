"""Safeseek: one line on what the paper does."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = ["__version__", "antithetic_estimates", "plain_estimates"]

__version__ = version("icml-safeseek")

if TYPE_CHECKING:
    from icml.safeseek.antithetic import antithetic_estimates, plain_estimates
else:
    __getattr__, __dir__ = exports(
        __name__, {"antithetic": ["antithetic_estimates", "plain_estimates"]}
    )
