"""What GDPO would have made of a logged run: ``icml gdpo audit``."""

from typing import TYPE_CHECKING

from icml.core.lazy import exports

__all__ = ["Audit", "Log", "LoggedBatch", "audit", "read_log", "trl_logged_batches", "write_audit"]

if TYPE_CHECKING:
    from icml.gdpo.audit.findings import Audit, audit, write_audit
    from icml.gdpo.audit.logs import Log, LoggedBatch, read_log, trl_logged_batches
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "findings": ["Audit", "audit", "write_audit"],
            "logs": ["Log", "LoggedBatch", "read_log", "trl_logged_batches"],
        },
    )
