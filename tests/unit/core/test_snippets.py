"""The lines that a person pastes into a client."""

from __future__ import annotations

import json
import shlex

from pilothouse.core.snippets import snippets

URL = "http://127.0.0.1:4000"


def test_every_client_gets_one_line_that_names_the_endpoint() -> None:
    lines = snippets(URL)
    assert [name.split(" (")[0] for name in lines] == [
        "Claude Code", "Cursor", "VS Code", "Codex", "Gemini CLI",
    ]  # fmt: skip
    for line in lines.values():
        assert f"{URL}/mcp" in line
        assert "\n" not in line


def test_shell_lines_are_words_that_a_shell_reads_as_written() -> None:
    lines = snippets(URL)
    program, flag, config = shlex.split(lines["VS Code"])
    assert (program, flag) == ("code", "--add-mcp")
    assert json.loads(config) == {"name": "pilothouse", "type": "http", "url": f"{URL}/mcp"}
    for client in ("Claude Code", "Codex", "Gemini CLI"):
        assert shlex.split(lines[client])[-1] == f"{URL}/mcp"


def test_the_file_for_cursor_is_json() -> None:
    config = json.loads(snippets(URL)["Cursor (.cursor/mcp.json)"])
    assert config == {"mcpServers": {"pilothouse": {"url": f"{URL}/mcp"}}}
