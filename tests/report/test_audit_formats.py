"""An audit on paper: JSON and SARIF follow their schemas, the page is quiet, and a hostile name stays a name."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sarif_schemas import OFFICIAL, STRUCTURE

import laybare as lb
from laybare.errors import InvalidInput
from laybare.report.audit_formats import REFERENCES, shipped_schema, validate_document
from laybare.report.audit_words import advice

HOSTILE = "<script>alert(1)</script>|`x`\n# no"


@pytest.fixture(scope="module")
def audit() -> lb.Audit:
    return lb.audit(
        lb.random_network(3, 2, rng=1), (20, 100), defences=("round:2", "cap:10", "label"), command="audit net.safetensors")


@pytest.fixture(scope="module")
def document(audit: lb.Audit) -> dict[str, Any]:
    return dict(json.loads(audit.json()))


def test_json_follows_the_shipped_schema_by_both_validators(document: dict[str, Any]) -> None:
    validate_document(document, "audit-1")
    schema = shipped_schema("audit-1")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["schema_version"] == 1 and document["near"] == document["rows"][1]["queries"]


def spoil(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = deepcopy(document)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = changed
    for part in way:
        place = place[part]
    place[last] = value
    return changed


@pytest.mark.parametrize(("path", "value"), [
    ("schema_version", 2), ("schema_version", True), ("format", "other"), ("near", -1), ("near", 2.5), ("verdict", "fine"),
    ("rows.0.way", "magic"), ("rows.0.budget", "many"), ("rows.1.widths.0", None), ("origin.fingerprint", "0"), ("more", 1),
    ("defences.0.name", "wall"), ("interrupted", 0), ("check.share", None), ("origin.date", "today")])
def test_both_validators_refuse_the_same(document: dict[str, Any], path: str, value: Any) -> None:
    wrong = spoil(document, path, value)
    with pytest.raises(InvalidInput, match="breaks the schema"):
        validate_document(wrong, "audit-1")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(shipped_schema("audit-1")).validate(wrong)


def test_a_keyword_that_the_validator_does_not_know_is_no_pass() -> None:
    from laybare.report.audit_formats import violations

    with pytest.raises(KeyError):
        list(violations(1, {"maximum": 0}, {}, "x"))


def test_sarif_has_the_structure_of_its_standard(audit: lb.Audit) -> None:
    written = json.loads(audit.render("sarif"))
    jsonschema.Draft202012Validator(STRUCTURE).validate(written)
    run = written["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    found = [result["ruleId"] for result in run["results"]]
    assert found == ["model-extraction", "query-limit", "output-defence", "output-defence"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert run["results"][0]["level"] == "error" and "copy" in run["results"][0]["message"]["text"]
    tags = {tag for rule in rules for tag in rule["properties"]["tags"]}
    assert {f"{entry.catalogue} {entry.identifier}" for entry in REFERENCES} <= tags


SPOILED = {
    "version": "2.0", "runs.0.results.0.level": "bad", "runs.0.results.0.message": "text", "runs.0.tool": {},
    "runs.0.results.0.locations.0.logicalLocations.0.more": 1, "runs.0.columnKind": "letters",
    "runs.0.invocations.0.executionSuccessful": "yes"}


@pytest.mark.parametrize("path", SPOILED)
def test_sarif_that_lacks_something_is_refused(audit: lb.Audit, path: str) -> None:
    spoiled = spoil(json.loads(audit.render("sarif")), path, SPOILED[path])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(STRUCTURE).validate(spoiled)


@pytest.mark.skipif(not OFFICIAL, reason="the schema of the standard is not at hand: make test-sarif gets it")
def test_sarif_follows_the_schema_of_the_standard(audit: lb.Audit) -> None:
    """And what the structure refuses, the standard refuses: the structure allows nothing more."""
    official = json.loads(Path(OFFICIAL).read_text(encoding="utf-8"))
    checked = jsonschema.validators.validator_for(official)(official, format_checker=jsonschema.FormatChecker())
    assert official["$id"].endswith("sarif-schema-2.1.0.json") and "reportingDescriptor" in official["definitions"]
    begun = replace(audit, rows=(), defences=(), interrupted=True)
    for one in (audit, begun, replace(audit, model=HOSTILE), replace(audit, defences=())):
        written = json.loads(one.render("sarif"))
        assert [error.message for error in checked.iter_errors(written)] == []
        jsonschema.Draft202012Validator(STRUCTURE).validate(written)
    for path, value in SPOILED.items():
        assert not checked.is_valid(spoil(json.loads(audit.render("sarif")), path, value)), path


def test_the_page_says_what_a_client_needs(audit: lb.Audit) -> None:
    page = audit.render("html")
    for text in ("exact copy", "After ", "Content-Security-Policy", "default-src 'none'", audit.origin.fingerprint,
                 audit.origin.date, "laybare audit net.safetensors", "What to do", "What this does not say", "AML.T0024.002",
                 "answers rounded to 2 decimals", "Appendix", f"laybare {lb.__version__}"):
        assert text in page, text
    assert "<script" not in page and "http:" not in page.replace("http://www.w3.org", "") and "src=" not in page


@pytest.mark.parametrize("form", ["html", "md", "json", "sarif"])
def test_a_model_may_be_called_anything(audit: lb.Audit, form: str, tmp_path: Path) -> None:
    named = replace(audit, model=HOSTILE)
    text = named.render(form)
    if form in ("html", "md"):
        assert "<script" not in text and (form == "html" or "\n# no" not in text)
    else:
        assert HOSTILE in json.dumps(json.loads(text), ensure_ascii=False).encode().decode("unicode_escape")
    named.report(tmp_path / f"x.{form}")
    assert (tmp_path / f"x.{form}").read_text(encoding="utf-8") == text


def test_the_advice_follows_from_the_table_of_defences(audit: lb.Audit) -> None:
    """One row of each kind: held, open, slower, the same, inexact, a cap, and one that was not measured."""
    row, near = audit.defences[0], audit.near or 0
    table = tuple(
        row._replace(
            name=name, description=name, near=cost, exact=exact, quota=quota, days=days, sentence=why,
            not_with=row.within if name == "held" else 0)
        for name, cost, exact, quota, days, why in (
            ("held", None, None, 5, nan, ""), ("unclear", None, None, 0, nan, ""),
            ("slower", 20 * near, None, 7, nan, ""), ("dear", 3 * near, near, 2, nan, ""),
            ("same", near, near, 0, nan, ""), ("cap", near, near, 0, 9.0, ""), ("odd", None, None, 0, nan, "no classes")))
    said = advice(replace(audit, defences=table))
    assert said.pop(2).startswith("Whether these hold is open: unclear.")
    assert said[1].startswith("Use what held: held.") and f"slower ({20 * near:,}), dear ({3 * near:,})" in said[2]
    assert said[3] == "Behind slower, at most 7 queries a day make a copy take more than a year."
    assert said[4].startswith("These change nothing: same.") and said[5].startswith("The weights stay inexact behind slower;")
    assert "odd" not in "".join(said) and "cap" not in "".join(said)
    assert advice(replace(audit, rows=())) == []


def test_formats_that_are_none(audit: lb.Audit) -> None:
    with pytest.raises(InvalidInput, match=r"form is 'pdf'\. Known are html, json, md, sarif"):
        audit.render("pdf")


@pytest.mark.parametrize("ending", [".pdf", ".csv", ".xml", ".npz", ".onnx"])
def test_a_page_is_not_written_under_the_ending_of_another_format(audit: lb.Audit, ending: str, tmp_path: Path) -> None:
    found = lb.recover(lb.Oracle(lb.random_network(2, 1, rng=0), budget=500))
    for write in (audit.report, found.report):
        with pytest.raises(InvalidInput, match="ends in"):
            write(str(tmp_path / f"a{ending}"))
        write(str(tmp_path / "page"))
    audit.report(tmp_path / f"a{ending}", "md")  # who names the format means it


def test_text_and_figure(audit: lb.Audit) -> None:
    assert "After " in str(audit) and "round:2" in str(audit) and audit.figure().startswith("<svg")
    assert "After " in audit._repr_html_()
