"""What `--worker` may say."""

from __future__ import annotations

import pytest

from pilothouse.core.settings import BadSetting
from pilothouse.hub.workers.choice import Choice, parse_choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("builtin", Choice("builtin")),
        ("playwright-mcp", Choice("playwright-mcp")),
        ("playwright-mcp:/opt/my node", Choice("playwright-mcp", folder="/opt/my node")),
        ("stdio:npx -y some-mcp", Choice("stdio", argv=("npx", "-y", "some-mcp"))),
        (
            "http:server --port {port} 'a b'",
            Choice("http", argv=("server", "--port", "{port}", "a b")),
        ),
    ],
)
def test_every_form_is_understood(text: str, choice: Choice) -> None:
    assert parse_choice(text) == choice


@pytest.mark.parametrize(
    "text", ["", "builtin:x", "playwright", "stdio:", "http: ", "node server.js", "stdio:'open"]
)
def test_another_form_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(BadSetting, match=r"--worker"):
        parse_choice(text)
