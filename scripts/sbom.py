"""Write the software bill of materials as CycloneDX JSON: everything that the lock files pin.

It has the Python packages of requirements.lock and requirements-uv.lock and the npm packages of the
dashboard's page, with the hashes by which they are installed. The same lock files give the same
bytes: it bears a time only if SOURCE_DATE_EPOCH says which.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tomllib
from base64 import b64decode
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "dist" / "pilothouse.cdx.json"
SPEC = "1.6"
PROJECT = "pilothouse"
_DEV = f"{PROJECT}:dev"
_PAGE = "pilothouse-dashboard"
_EXTENSION = "pilothouse-extension"
_PIN = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[\w,.-]+\])?==(?P<version>[^\s;]+)(?:\s*;\s*(?P<for>.+))?"
)
_ALGORITHMS = {"sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}
_IMPORT = re.compile(r"""\bfrom\s+["'](@[^/"']+/[^/"']+|[^@./"'][^/"']*)""")


class BadLock(Exception):
    """A lock file has a line that this script does not know: a bill must not leave it out."""


@dataclass(slots=True)
class Package:
    """A package that is pinned."""

    kind: str
    """Of its purl: pypi or npm."""
    name: str
    version: str
    hashes: list[tuple[str, str]] = field(default_factory=list)
    marker: str = ""
    """Where alone it is installed."""
    licence: str = ""
    needed_by: list[str] = field(default_factory=list)
    """References of what asks for it."""

    @property
    def ref(self) -> str:
        """Its package URL, which names it in the whole bill."""
        return f"pkg:{self.kind}/{quote(self.name, safe='/')}@{quote(self.version, safe='')}"

    def component(self, scope: str) -> dict[str, Any]:
        """Return its entry."""
        group, _, name = self.name.rpartition("/")
        told: dict[str, Any] = {"type": "library", "bom-ref": self.ref}
        told |= {"group": group} if group else {}
        told |= {"name": name, "version": self.version, "scope": scope}
        if self.hashes:
            told["hashes"] = [{"alg": alg, "content": content} for alg, content in self.hashes]
        if self.licence:
            told["licenses"] = [{"expression": self.licence}]
        told["purl"] = self.ref
        if self.marker:
            told["properties"] = [{"name": f"{PROJECT}:installed-if", "value": self.marker}]
        return told


def python_packages(lock: str) -> Iterator[Package]:
    """Yield the packages of a lock file that `uv pip compile` wrote."""
    found: list[Package] = []
    for raw in lock.splitlines():
        line = raw.strip().removesuffix("\\").strip()
        if pin := _PIN.fullmatch(line):
            found.append(Package("pypi", pin["name"], pin["version"], marker=pin["for"] or ""))
        elif found and line.startswith("--hash="):
            algorithm, _, content = line.removeprefix("--hash=").partition(":")
            found[-1].hashes.append((_ALGORITHMS[algorithm], content))
        elif found and line.startswith("#"):
            asker = line.lstrip("# ").removeprefix("via").strip()
            if asker:
                found[-1].needed_by.append(_asker(asker))
        elif line:
            raise BadLock(f"no package, hash or comment: {raw!r}")
    yield from found


def _asker(comment: str) -> str:
    """Return who is named by what follows "via": a package, the project or its tests."""
    name, _, file = comment.partition(" ")
    return _DEV if name == PROJECT and file == "(pyproject.toml:dev)" else name


def npm_packages(lock: Mapping[str, Any]) -> Iterator[Package]:
    """Yield the packages of a package-lock.json."""
    entries: Mapping[str, Any] = lock["packages"]
    found = {
        path: Package(
            "npm",
            path.rpartition("node_modules/")[2],
            entry["version"],
            hashes=[*_integrity(entry.get("integrity", ""))],
            marker=_platform(entry),
            licence=str(entry.get("license") or ""),
        )
        for path, entry in entries.items()
        if path
    }
    found[""] = Package("npm", _PAGE, "")
    for path, entry in entries.items():
        asker = found[path].ref if path else _PAGE
        kinds = ("dependencies", "optionalDependencies", *(() if path else ("devDependencies",)))
        for name in (name for kind in kinds for name in entry.get(kind, ())):
            place = _place_of(name, path, entries)
            if place is not None:
                found[place].needed_by.append(asker)
            elif name not in entry.get("optionalDependencies", ()):
                raise BadLock(f"{path or 'the page'} needs {name}, which is not locked")
    yield from (package for path, package in found.items() if path)


def _place_of(name: str, path: str, entries: Mapping[str, Any]) -> str | None:
    """Return where Node finds a package: beside who asks, or in a folder above."""
    while True:
        place = f"{path}/node_modules/{name}".lstrip("/")
        if place in entries:
            return place
        if not path:
            return None
        path = path.rpartition("node_modules/")[0].rstrip("/")


def _integrity(text: str) -> Iterator[tuple[str, str]]:
    for one in text.split():
        algorithm, _, content = one.partition("-")
        yield _ALGORITHMS[algorithm], b64decode(content).hex()


def _platform(entry: Mapping[str, Any]) -> str:
    told = {kind: entry[kind] for kind in ("os", "cpu", "libc") if kind in entry}
    return "; ".join(f"{kind}: {', '.join(values)}" for kind, values in told.items())


def bill(root: Path = ROOT, when: int | None = None) -> dict[str, Any]:
    """Return the bill of materials of a checkout."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    extension = json.loads((root / "extension" / "manifest.json").read_text())["version"]
    found = [*python_packages((root / "requirements.lock").read_text())]
    tools = [*python_packages((root / "requirements-uv.lock").read_text())]
    page = [*npm_packages(json.loads((root / "web" / "package-lock.json").read_text()))]
    refs = {one.name: one.ref for one in found}
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for one in (*found, *page):
        for asker in one.needed_by:
            needs[refs.get(asker, asker)].add(one.ref)
    needs[PROJECT] |= {_PAGE, _EXTENSION}
    # The page is built: of what its sources import, its own code is a copy.
    imported = {name for file in (root / "web" / "src").rglob("*.ts*") for name in _imports(file)}
    built_in = {one.ref for one in page if one.name in imported}
    used = _reached(PROJECT, {**needs, _PAGE: built_in})
    packages = {one.ref: one for one in (*found, *tools, *page)}
    metadata: dict[str, Any] = {}
    if when is not None:
        metadata["timestamp"] = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata["component"] = _own(PROJECT, version)
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": metadata,
        "components": [
            _own(_PAGE, version),
            _own(_EXTENSION, extension),
            *(
                packages[ref].component("required" if ref in used else "excluded")
                for ref in sorted(packages)
            ),
        ],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(needs[ref])} if needs.get(ref) else {"ref": ref}
            for ref in (PROJECT, _PAGE, _EXTENSION, *sorted(packages))
        ],
    }


def _own(name: str, version: str) -> dict[str, Any]:
    licences = [{"license": {"id": "Apache-2.0"}}]
    told = {"type": "application", "bom-ref": name, "name": name, "version": version}
    return {**told, "licenses": licences}


def _imports(file: Path) -> Iterable[str]:
    return _IMPORT.findall(file.read_text())


def _reached(start: str, needs: Mapping[str, set[str]]) -> set[str]:
    """Return all that is needed to run, and not only to build or to test."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += needs.get(ref, ())
    return reached


def main() -> None:
    """Write the bill where it is wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    output = parser.parse_args().output
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    made = bill(when=int(epoch) if epoch else None)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(made, indent=1) + "\n")
    print(f"{output}: {len(made['components'])} components")


if __name__ == "__main__":
    main()
