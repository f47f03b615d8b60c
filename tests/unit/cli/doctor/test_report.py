"""How the doctor's findings are shown."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.cli.doctor import report
from pilothouse.cli.doctor.report import Finding

findings_lists = st.lists(
    st.builds(
        Finding,
        check=st.sampled_from(["browser", "port"]),
        state=st.sampled_from(["ok", "note", "warn", "block"]),
        said=st.text(st.characters(categories=["L", "N", "S"]), min_size=1),
        fix=st.sampled_from(["", "chmod 600 /some/file"]),
    ),
    max_size=6,
)


@given(findings_lists)
def test_the_exit_code_is_one_exactly_when_something_blocks(findings: list[Finding]) -> None:
    blocked = "block" in {finding.state for finding in findings}
    assert report.exit_code(findings) == (1 if blocked else 0)
    assert ("cannot work" in report.summary(findings)) is blocked


@given(findings_lists)
def test_json_and_plain_lines_hold_every_finding_and_every_fix(findings: list[Finding]) -> None:
    assert [Finding(**entry) for entry in json.loads(report.as_json(findings))] == findings
    lines = list(report.plain_lines(findings))
    fixes = [finding.fix for finding in findings if finding.fix]
    assert [line.split("$ ")[1] for line in lines if line.startswith("   ")] == fixes
    assert len(lines) == len(findings) + len(fixes) + 2


def test_a_pipe_that_knows_only_ascii_gets_the_words_without_the_symbols() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    report.show([Finding("port", "warn", "4000 is taken", "export A=1")], out)
    out.flush()
    assert raw.getvalue().startswith(b"! port       4000 is taken\n             $ export A=1\n")
