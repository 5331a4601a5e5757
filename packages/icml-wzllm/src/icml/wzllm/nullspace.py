"""Null spaces of matrices of polynomials, without fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icml.wzllm.ring import Poly, Ring

__all__ = ["nullspace"]


def nullspace(ring: Ring, rows: Sequence[Sequence[Poly]], columns: int) -> Iterator[list[Poly]]:
    """Yield vectors that span the null space over the fraction field, with polynomial entries.

    One vector for each column without a pivot, in the order of the columns; each is primitive.

    Args:
        ring: Holds the entries.
        rows: The matrix, (rows, columns).
        columns: The number of columns.
    """
    matrix = [list(row) for row in rows]
    pivots = _eliminate(matrix, columns)
    taken = {column for _, column in pivots}
    for column in range(columns):
        if column in taken:
            continue
        common = ring.one
        for row, pivot in pivots:
            if matrix[row][column] != 0:
                entry = matrix[row][pivot]
                common = common * (entry / common.gcd(entry))
        vector = [ring.zero] * columns
        vector[column] = common
        for row, pivot in pivots:
            if matrix[row][column] != 0:
                vector[pivot] = -matrix[row][column] * (common / matrix[row][pivot])
        yield _primitive(vector)


def _eliminate(matrix: list[list[Poly]], columns: int) -> list[tuple[int, int]]:
    """Bring the matrix to reduced form in place; return the pivots as (row, column)."""
    pivots: list[tuple[int, int]] = []
    for column in range(columns):
        top = len(pivots)
        candidates = [row for row in range(top, len(matrix)) if matrix[row][column] != 0]
        if not candidates:
            continue
        best = min(candidates, key=lambda row: len(matrix[row][column]))
        matrix[top], matrix[best] = matrix[best], matrix[top]
        pivot_row = matrix[top]
        for row, entries in enumerate(matrix):
            if row != top and entries[column] != 0:
                common = entries[column].gcd(pivot_row[column])
                a, b = pivot_row[column] / common, entries[column] / common
                matrix[row] = _primitive(
                    [a * x - b * y for x, y in zip(entries, pivot_row, strict=True)]
                )
        pivots.append((top, column))
    return pivots


def _primitive(vector: list[Poly]) -> list[Poly]:
    common: Poly | None = None
    for entry in vector:
        if entry != 0:
            common = entry if common is None else common.gcd(entry)
            if common == 1:
                return vector
    return vector if common is None else [entry / common for entry in vector]
