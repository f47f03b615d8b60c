"""Settings on their way to another process of ours."""

from __future__ import annotations

import json

from pilothouse.core.settings import Settings, packed, unpacked


def test_settings_are_the_same_after_a_journey_as_json() -> None:
    settings = Settings(home="/x", tools=("e2e",), roots=("/a", "/b"), allowed_hosts=(), cdp_port=1)
    assert unpacked(json.loads(json.dumps(packed(settings)))) == settings


def test_defaults_do_not_travel() -> None:
    assert packed(Settings()) == {}
    assert unpacked({}) == Settings()


def test_what_another_version_knows_is_left_out() -> None:
    assert unpacked({"home": "/x", "set_in_the_future": 1}) == Settings(home="/x")
