"""``python -m icml.brokenmath.checker``: items on standard input, a line of JSON about each.

The first line, `READY`, says that it has started.

`icml.brokenmath.validator` starts it under limits of time and memory: it has nothing but the items.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

from pydantic import ValidationError

from icml.brokenmath.items import Item
from icml.brokenmath.verified import NotVerified, verify

__all__ = ["READY", "main"]

READY = "ready"


def main() -> None:
    """Answer line by line."""
    print(READY, flush=True)
    for line in sys.stdin:
        start = perf_counter()
        flag, reason = "", ""
        try:
            item = Item.model_validate_json(line)
            verify(item)
        except NotVerified as error:
            flag, reason = error.flag, str(error)
        except ValidationError as error:
            flag, reason = "no item", str(error.errors()[0]["msg"])
        seconds = round(perf_counter() - start, 6)
        print(json.dumps({"flag": flag, "reason": reason, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
