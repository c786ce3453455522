"""Claims with numbers, error bars and a verdict: never silently wrong."""

from laybare.certificate.certificate import (
    Assurance,
    Certificate,
    Claim,
    ClaimName,
    Findings,
    Resolution,
    SearchRecord,
    StandardErrors,
    unfinished_certificate,
)
from laybare.certificate.standard_errors import standard_errors_at
from laybare.certificate.verification import certify

__all__ = [
    "Assurance", "Certificate", "Claim", "ClaimName", "Findings", "Resolution", "SearchRecord", "StandardErrors", "certify",
    "standard_errors_at", "unfinished_certificate"]
