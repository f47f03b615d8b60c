"""Chromium's settings: nothing goes round the proxy but the session's own servers."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from pilothouse.e2e.browser.flags import (
    PLAYWRIGHT_FEATURES,
    UNSEEN_FEATURES,
    bypass_list,
    feature_flag,
    policy_flags,
)


def test_own_origins_on_this_machine_are_the_only_exceptions() -> None:
    own = {
        ("http", "localhost", 3000),
        ("https", "LOCALHOST.", 3443),
        ("http", "127.0.0.1", 3000),
        ("http", "::1", 3000),
        ("http", "app.localhost", 3000),
        ("https", "example.com", 443),
        ("http", "10.0.0.1", 80),
    }
    first, *rest = bypass_list(own).split(";")
    assert first == "<-loopback>"
    assert sorted(rest) == [
        "127.0.0.1:3000", "[::1]:3000", "app.localhost:3000", "localhost:3000", "localhost:3443",
    ]  # fmt: skip
    assert bypass_list(()) == "<-loopback>"


def test_the_flags_name_the_proxy_and_each_comes_once() -> None:
    flags = policy_flags(4321)
    assert "--proxy-server=http://127.0.0.1:4321" in flags
    assert "--proxy-bypass-list=<-loopback>" in flags
    names = [flag.partition("=")[0] for flag in flags]
    assert len(names) == len(set(names))
    # Playwright gives this one itself, and Chromium heeds only the last.
    assert "--disable-features" not in names


def test_what_playwright_turns_off_stays_off() -> None:
    """Chromium takes the last --disable-features alone, and that is ours."""
    package = importlib.util.find_spec("playwright")
    assert package is not None
    assert package.origin is not None
    bundle = Path(package.origin).parent / "driver" / "package" / "lib" / "coreBundle.js"
    listed = re.search(r"disabledFeatures = \[(.+?)\]", bundle.read_text(), re.S)
    assert listed is not None
    theirs = re.findall(r'^\s*"(\w+)",?$', listed[1], re.M)
    assert theirs == list(PLAYWRIGHT_FEATURES)
    ours = feature_flag().removeprefix("--disable-features=").split(",")
    assert ours == [*theirs, *UNSEEN_FEATURES]
