"""The loop on one screen: source -> problem -> start -> search -> signs -> certificate."""

from typing import TYPE_CHECKING

from laybare.numerics.lazy import homes_of, on_demand
from laybare.pipeline.main_loop import recover, refine
from laybare.pipeline.monitor import SearchLimit
from laybare.pipeline.recovery import Recovery

if TYPE_CHECKING:
    from laybare.pipeline.auditing import Audit, AuditRow, audit

__getattr__ = on_demand(__name__, homes_of({"laybare.pipeline.auditing": "Audit AuditRow audit"}))

__all__ = ["Audit", "AuditRow", "Recovery", "SearchLimit", "audit", "recover", "refine"]
