"""``icml safeseek …``: thin sub-commands, each calls one public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

app: Mapping[str, Callable[[Any], int | None]] = {}
