"""Claims with numbers, error bars and a verdict: never silently wrong."""

from laybare.certificate.checks import certify
from laybare.certificate.claims import Certificate, Claim, StandardErrors, unjudged
from laybare.certificate.spread import standard_errors

__all__ = ["Certificate", "Claim", "StandardErrors", "certify", "standard_errors", "unjudged"]
