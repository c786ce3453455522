"""Which entries of catalogues of threats and controls an audit speaks about, and what it measures of each."""

from __future__ import annotations

from typing import NamedTuple


class CatalogueEntry(NamedTuple):
    """An entry: what it is called there, and what this audit measures of it."""

    catalogue: str
    identifier: str
    title: str
    measured: str


REFERENCES = (
    CatalogueEntry("MITRE ATLAS", "AML.T0024.002", "extract a model through its interface",
                   "queries to a copy, by three attacks"),
    CatalogueEntry("MITRE ATLAS", "AML.T0040", "access to the interface of a model", "taken for granted: the audit has it"),
    CatalogueEntry("MITRE ATLAS", "AML.M0002", "obfuscate outputs", "rounding, precision, labels and noise, simulated"),
    CatalogueEntry("MITRE ATLAS", "AML.M0004", "restrict the number of queries",
                   "the daily quota under which a copy takes a year"),
    CatalogueEntry("OWASP", "ML05:2023", "model theft", "whether it succeeds, and how exactly"),
    CatalogueEntry("OWASP AISVS", "11.5.1", "query limits sized to the extraction threat model", "the size, in queries a day"),
    CatalogueEntry("OWASP AISVS", "11.5.2", "alerts that carry details of the queries",
                   "not measured; the log of the audit is an example of such queries"),
    CatalogueEntry("OWASP AISVS", "11.5.3", "a detector of extraction from patterns of queries",
                   "not measured; the log of the audit is a test for one"),
    CatalogueEntry("NIST AI 100-2", "NISTAML.031", "model extraction", "whether it succeeds, and how exactly"),
    CatalogueEntry("EU AI Act", "Art. 15(5)", "resilience against attacks on confidentiality, for high-risk systems",
                   "one such attack; the article asks for measures, of which defences are some"),
)
