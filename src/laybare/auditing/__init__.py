"""An audit: what an outsider can copy with how many queries, and what defences change about it."""

from laybare.auditing.budgets import audit
from laybare.auditing.outcome import Audit, AuditOrigin, AuditRow, DefenceRow

__all__ = ["Audit", "AuditOrigin", "AuditRow", "DefenceRow", "audit"]
