"""A budget of calls and tokens: what would exceed it is refused before it is made."""

from __future__ import annotations

from threading import Lock

from icml.core.errors import UserError


class BudgetExceeded(UserError):
    """The next call could go over the budget; it was not made."""


class Budget:
    """Counts calls and tokens against limits; calls in flight count with what they may need."""

    def __init__(self, *, max_tokens: int | None = None, max_calls: int | None = None) -> None:
        """Set the limits, at least one.

        Args:
            max_tokens: Read and written together.
            max_calls: Made, the failed ones too.

        Raises:
            UserError: If there is no limit, or a negative one.
        """
        limits = [limit for limit in (max_tokens, max_calls) if limit is not None]
        if not limits or min(limits) < 0:
            raise UserError(
                "a budget needs max_tokens, max_calls or both, none below 0: got "
                f"max_tokens={max_tokens}, max_calls={max_calls}"
            )
        self.max_tokens = max_tokens
        self.max_calls = max_calls
        self.tokens = 0
        """Used so far."""
        self.calls = 0
        """Made so far, those in flight included."""
        self._held = 0
        self._lock = Lock()

    def reserve(self, tokens: int) -> Reservation:
        """Hold what a call may need, before it is made.

        Args:
            tokens: Those it reads and the most that it may write.

        Returns:
            To be settled with what was used; as a context manager it is released at its end.

        Raises:
            BudgetExceeded: If that could exceed the budget.

        Example:
            >>> budget = Budget(max_tokens=100)
            >>> with budget.reserve(80) as held:
            ...     held.settle(30)
            >>> budget.tokens
            30
        """
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise BudgetExceeded(f"the budget of {self.max_calls} calls is used up")
            wanted = self.tokens + self._held + tokens
            if self.max_tokens is not None and wanted > self.max_tokens:
                raise BudgetExceeded(
                    f"a call of up to {tokens} tokens could exceed the budget: {self.tokens} of "
                    f"{self.max_tokens} are used, {self._held} held by calls in flight"
                )
            self.calls += 1
            self._held += tokens
        return Reservation(self, tokens)

    def _release(self, held: int, used: int) -> None:
        with self._lock:
            self._held -= held
            self.tokens += used


class Reservation:
    """Tokens that one call holds."""

    def __init__(self, budget: Budget, tokens: int) -> None:
        """Hold them; `Budget.reserve` does."""
        self._budget = budget
        self._tokens: int | None = tokens

    def settle(self, used: int) -> None:
        """Put what was used in place of what was held; only the first time counts."""
        if self._tokens is not None:
            self._budget._release(self._tokens, used)
            self._tokens = None

    def __enter__(self) -> Reservation:
        """Return itself."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Release what no answer has settled: a call that failed used nothing that is known."""
        self.settle(0)
