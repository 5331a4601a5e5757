"""What the entropy of a step has to do with the size of its update."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from icml.core.rl.masked import at_least_float32
from icml.empg.entropy import check_step_entropy


def score_norm_sq(logits: Tensor) -> Tensor:
    """Return the expected squared norm of a token's score with respect to its logits (Prop. 1).

    With ``p = softmax(logits)`` and ``a`` drawn from it,
    ``E ||grad_logits log p(a)||^2 = E ||e_a - p||^2 = 1 - sum p^2 = 1 - exp(-H2)``, where ``H2``
    is the Renyi entropy of order 2: uncertain tokens get large updates.

    Args:
        logits: ``(..., vocabulary)``; log-probabilities are logits, too.

    Returns:
        ``(...)``, from 0 (certain) to below 1.

    Raises:
        ValueError: If there is no last dimension to sum over.

    Example:
        >>> score_norm_sq(torch.tensor([0.7, 0.2, 0.1]).log())
        tensor(0.4600)
    """
    return -torch.expm1(-renyi2_entropy(logits))


def renyi2_entropy(logits: Tensor) -> Tensor:
    """Return ``H2 = -log sum p^2`` of ``p = softmax(logits)``, in nats.

    Args:
        logits: ``(..., vocabulary)``.

    Returns:
        ``(...)``, >= 0.

    Raises:
        ValueError: If there is no last dimension to sum over.

    Example:
        >>> round(renyi2_entropy(torch.tensor([0.7, 0.2, 0.1]).log()).item(), 4)
        0.6162
    """
    if not logits.ndim or not logits.shape[-1]:
        raise ValueError(f"logits must be (..., vocabulary), got shape {tuple(logits.shape)}")
    log_p = at_least_float32(logits).log_softmax(dim=-1)
    # Rounding may leave a certain distribution a little below 0.
    return -(2 * log_p).logsumexp(dim=-1).clamp(max=0)


@dataclass(frozen=True)
class UpdateReport:
    """How a batch's update divides among its steps, from the surest to the least sure.

    ``str(report)`` is a table.
    """

    edges: tuple[float, ...]
    """Quantiles of the step entropy that bound the classes, in nats; one more than classes."""
    steps: tuple[int, ...]
    """Steps in each class."""
    share_before: tuple[float, ...]
    """Fraction of the summed update size in each class, with the advantages as they were."""
    share_after: tuple[float, ...]
    """Likewise with the modulated advantages."""
    corr_before: float
    """Correlation of a step's update size with its entropy; NaN where one is constant."""
    corr_after: float
    """Likewise with the modulated advantages."""

    def __str__(self) -> str:
        """Return the table."""
        lines = [f"{'step entropy (nats)':<22}{'steps':>7}{'before':>9}{'after':>9}"]
        for i, count in enumerate(self.steps):
            bounds = f"{self.edges[i]:.3f} to {self.edges[i + 1]:.3f}"
            shares = f"{self.share_before[i]:>9.1%}{self.share_after[i]:>9.1%}"
            lines.append(f"{bounds:<22}{count:>7}{shares}")
        correlations = f"{self.corr_before:>9.3f}{self.corr_after:>9.3f}"
        lines.append(f"{'correlation with entropy':<29}{correlations}")
        return "\n".join(lines)


def update_report(
    step_entropy: Tensor,
    before: Tensor,
    after: Tensor,
    *,
    score_norm: Tensor | None = None,
    classes: int = 4,
) -> UpdateReport:
    """Divide a batch's update among entropy quantiles, before and after the modulation.

    The size of a step's update is ``|A| ||score||``: what policy gradient multiplies.

    Args:
        step_entropy: ``(N,)`` in nats.
        before: ``(N,)`` advantages without EMPG.
        after: ``(N,)`` advantages with it, see :func:`icml.empg.empg_modulate`.
        score_norm: ``(N,)`` norm of the step's score, such as the root of the mean
            :func:`score_norm_sq` of its tokens; 1 for all when None, which leaves ``|A|``.
        classes: Number of quantile classes, >= 1. Equal entropies share a class, so some may be
            empty.

    Returns:
        Shares and correlations.

    Raises:
        ValueError: If shapes differ, there is no step, an entropy is none or ``classes`` < 1.

    Example:
        >>> report = update_report(
        ...     torch.tensor([0.1, 0.2, 0.9, 1.0]),
        ...     before=torch.ones(4),
        ...     after=torch.tensor([2.0, 1.0, 0.5, 0.5]),
        ...     classes=2,
        ... )
        >>> report.share_before, report.share_after
        ((0.5, 0.5), (0.75, 0.25))
    """
    entropy = check_step_entropy(step_entropy)
    if classes < 1 or not len(entropy):
        raise ValueError(
            f"a report needs a step and a class at least, got {len(entropy)} steps and "
            f"classes={classes}"
        )
    norm = torch.ones_like(entropy) if score_norm is None else score_norm
    for name, values in (("before", before), ("after", after), ("score_norm", norm)):
        if values.shape != entropy.shape:
            raise ValueError(
                f"{name} must have one value for each of the {len(entropy)} steps, "
                f"got shape {tuple(values.shape)}"
            )
    edges = entropy.quantile(torch.linspace(0, 1, classes + 1).to(entropy))
    which = torch.bucketize(entropy, edges[1:-1], right=True)
    sizes = torch.stack([before.abs(), after.abs()]).to(entropy) * norm.to(entropy)
    shares = entropy.new_zeros(2, classes).index_add_(1, which, sizes)
    shares = shares / shares.sum(dim=1, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
    return UpdateReport(
        edges=tuple(edges.tolist()),
        steps=tuple(which.bincount(minlength=classes).tolist()),
        share_before=tuple(shares[0].tolist()),
        share_after=tuple(shares[1].tolist()),
        corr_before=_correlation(sizes[0], entropy),
        corr_after=_correlation(sizes[1], entropy),
    )


def _correlation(x: Tensor, y: Tensor) -> float:
    if x.min() == x.max() or y.min() == y.max():
        return float("nan")
    return float(torch.stack([x, y]).corrcoef()[0, 1])
