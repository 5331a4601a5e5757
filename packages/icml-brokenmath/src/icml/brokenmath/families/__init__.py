"""Families of statements that a computer decides: the true one proved, the false one refuted."""

from __future__ import annotations

from typing import Any

from icml.brokenmath.families.algebra import ALGEBRA
from icml.brokenmath.families.arithmetic import ARITHMETIC
from icml.brokenmath.families.counting import COUNTING
from icml.brokenmath.families.family import Family, Parameters
from icml.brokenmath.families.residues import RESIDUES
from icml.brokenmath.families.values import VALUES

__all__ = ["FAMILIES", "Family", "Parameters"]

FAMILIES: dict[str, Family[Any]] = {
    family.name: family for family in (*RESIDUES, *ARITHMETIC, *VALUES, *COUNTING, *ALGEBRA)
}
"""By name, in the order in which `icml.brokenmath.verified.generate` goes through them."""
