"""The bill of materials: all that is locked, in the form of CycloneDX 1.6, the same each time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from scripts.sbom import BadLock, bill, npm_packages, python_packages

ROOT = Path(__file__).resolve().parents[3]
REF = {"type": "string", "minLength": 1}
# The rules of the standard for what the bill uses, closed, so that nothing else comes in unseen.
FORM: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["bomFormat", "specVersion", "version", "metadata", "components", "dependencies"],
    "properties": {
        "$schema": {"const": "http://cyclonedx.org/schema/bom-1.6.schema.json"},
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "version": {"type": "integer", "minimum": 1},
        "metadata": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "timestamp": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
                "component": {"$ref": "#/definitions/component"},
            },
        },
        "components": {
            "type": "array", "uniqueItems": True, "items": {"$ref": "#/definitions/component"}
        },
        "dependencies": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["ref"],
                "properties": {
                    "ref": REF,
                    "dependsOn": {"type": "array", "uniqueItems": True, "items": REF},
                },
            },
        },
    },
    "definitions": {
        "component": {
            "type": "object",
            "additionalProperties": False,
            "required": ["type", "name", "version", "bom-ref"],
            "properties": {
                "type": {"enum": ["application", "library"]},
                "bom-ref": REF,
                "group": {"type": "string"},
                "name": {"type": "string"},
                "version": {"type": "string"},
                "scope": {"enum": ["required", "optional", "excluded"]},
                "purl": {"type": "string", "pattern": "^pkg:(pypi|npm)/[^@ ]+@[^@ ]+$"},
                "hashes": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["alg", "content"],
                        "properties": {
                            "alg": {"enum": ["SHA-256", "SHA-384", "SHA-512"]},
                            "content": {
                                "type": "string",
                                "pattern": "^([a-f0-9]{64}|[a-f0-9]{96}|[a-f0-9]{128})$",
                            },
                        },
                    },
                },
                # Either one expression, or licences by their names: never both.
                "licenses": {"type": "array", "minItems": 1, "maxItems": 1},
                "properties": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
            },
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return bill()


def test_the_bill_has_the_form_of_the_standard(made: dict[str, Any]) -> None:
    Draft7Validator.check_schema(FORM)
    wrong = [error.message for error in Draft7Validator(FORM).iter_errors(made)]
    assert wrong == []
    refs = [made["metadata"]["component"]["bom-ref"]]
    refs += [component["bom-ref"] for component in made["components"]]
    assert len(refs) == len(set(refs))
    told = made["dependencies"]
    assert sorted(one["ref"] for one in told) == sorted(refs)
    assert {ref for one in told for ref in one.get("dependsOn", ())} <= {*refs}


def test_everything_that_is_locked_is_in_it_with_its_hashes(made: dict[str, Any]) -> None:
    by_ref = {one["bom-ref"]: one for one in made["components"]}
    for name in ("requirements.lock", "requirements-uv.lock"):
        lock = (ROOT / name).read_text()
        pins = re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;\\]+)", lock, re.MULTILINE)
        assert pins
        assert {f"pkg:pypi/{name}@{version}" for name, version in pins} <= by_ref.keys()
        digests = {
            one["content"] for each in by_ref.values() for one in each.get("hashes", ())
        }  # fmt: skip
        assert {*re.findall(r"sha256:([0-9a-f]{64})", lock)} <= digests
    page = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    names = {path.rpartition("node_modules/")[2] for path in page if path}
    listed = {
        "/".join(filter(None, (one.get("group"), one["name"])))
        for one in by_ref.values()
        if one.get("purl", "").startswith("pkg:npm/")
    }
    assert listed == names
    assert all(one["hashes"] for one in by_ref.values() if "purl" in one)
    assert by_ref["pilothouse-extension"]["type"] == "application"


def test_what_runs_is_told_from_what_builds_and_tests(made: dict[str, Any]) -> None:
    scopes = {one["name"]: one.get("scope") for one in made["components"]}
    needed = {"mcp", "playwright", "mitmproxy", "pydantic-core", "preact"}
    assert {scopes[name] for name in needed} == {"required"}
    assert {scopes[name] for name in ("pytest", "ruff", "mypy", "vite", "uv")} == {"excluded"}


def test_it_is_the_same_each_time_and_names_no_registry(made: dict[str, Any]) -> None:
    written = json.dumps(made)
    assert json.dumps(bill()) == written
    assert "timestamp" not in made["metadata"]
    assert bill(when=0)["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    addresses = re.findall(r"\w+://[^\"\s]+", written)
    assert addresses == ["http://cyclonedx.org/schema/bom-1.6.schema.json"]


def test_a_line_that_nobody_knows_is_no_package_left_out() -> None:
    with pytest.raises(BadLock, match="git"):
        list(python_packages("a==1\nb @ git+ssh://host/b"))
    lock = {"packages": {"": {"dependencies": {"gone": "1"}}}}
    with pytest.raises(BadLock, match="gone"):
        list(npm_packages(lock))


def test_a_nested_package_is_that_of_who_is_above_it() -> None:
    lock: dict[str, Any] = {
        "packages": {
            "": {"devDependencies": {"a": "1", "@s/b": "1"}},
            "node_modules/a": {"version": "1.0.0", "dependencies": {"@s/b": "2"}},
            "node_modules/a/node_modules/@s/b": {"version": "2.0.0"},
            "node_modules/@s/b": {"version": "1.0.0", "os": ["linux"], "cpu": ["x64"]},
        }
    }
    found = {one.ref: one for one in npm_packages(lock)}
    assert found["pkg:npm/a@1.0.0"].needed_by == ["pilothouse-dashboard"]
    assert found["pkg:npm/%40s/b@2.0.0"].needed_by == ["pkg:npm/a@1.0.0"]
    above = found["pkg:npm/%40s/b@1.0.0"]
    assert above.needed_by == ["pilothouse-dashboard"]
    component = above.component("excluded")
    assert (component["group"], component["name"]) == ("@s", "b")
    assert component["properties"][0]["value"] == "os: linux; cpu: x64"
