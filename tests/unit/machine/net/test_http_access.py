"""Who may use an HTTP listener that no OAuth server guards: the rules, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pilothouse.machine.net.http_access import Access, AccessRefused
from pilothouse.machine.net.local_users import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKEN = "t0ken-" + "x" * 32
OWN_USER = Access(token=lambda: TOKEN)
EVERYBODY_BY_TOKEN = Access(token=lambda: TOKEN, trusts_own_user=False)
SET_TOKEN = Access(token=lambda: TOKEN, by_token_alone=True)


def judged(
    access: Access,
    caller: Caller,
    target: str = "/mcp",
    *,
    method: str = "GET",
    token: Sequence[str] = (),
    cookie: Sequence[str] = (),
) -> AccessRefused | None:
    return access.judge(caller, method, target, [f"Bearer {one}" for one in token], cookie)


def visit(access: Access, target: str) -> tuple[AccessRefused, str]:
    """The answer to a browser that brings the token, and the cookie in it."""
    answer = judged(access, Caller.OTHER, target)
    assert answer is not None
    return answer, dict(answer.headers)["set-cookie"].partition(";")[0]


def test_without_a_set_token_the_own_user_needs_none_and_others_do() -> None:
    assert judged(OWN_USER, Caller.OWN) is None
    for caller in (Caller.OTHER, Caller.UNKNOWN):
        refused = judged(OWN_USER, caller)
        assert refused is not None
        assert refused.status == 403
        assert b"pilothouse token --http" in refused.body
        assert judged(OWN_USER, caller, token=[TOKEN]) is None
    assert b"connect as that user, or send" in judged(OWN_USER, Caller.OTHER).body  # type: ignore[union-attr]


def test_where_all_local_users_may_come_everybody_is_asked_for_the_token() -> None:
    for caller in Caller:
        assert judged(EVERYBODY_BY_TOKEN, caller) is not None
        assert judged(EVERYBODY_BY_TOKEN, caller, token=[TOKEN]) is None


def test_a_set_token_decides_whoever_asks_and_leaves_health_and_the_shell_open() -> None:
    for caller in Caller:
        refused = judged(SET_TOKEN, caller)
        assert refused is not None
        assert refused.status == 401
        assert dict(refused.headers)["www-authenticate"].startswith("Bearer")
        assert judged(SET_TOKEN, caller, token=[TOKEN]) is None
        for path in ("/health", "/", "/assets/app.js"):
            assert judged(SET_TOKEN, caller, path) is None
        for path in ("/metrics", "/status", "/api/overview", "/assets"):
            assert judged(SET_TOKEN, caller, path) is not None


@pytest.mark.parametrize(
    "offered", [[], [""], ["wrong"], [TOKEN, TOKEN], [TOKEN + "x"], ["\udcff"]]
)
def test_anything_but_the_one_token_is_refused(offered: list[str]) -> None:
    assert judged(OWN_USER, Caller.OTHER, token=offered) is not None
    assert judged(SET_TOKEN, Caller.OWN, token=offered) is not None


def test_no_token_is_good_before_one_was_made() -> None:
    nothing = Access(token=lambda: None)
    for offered in ("", "None", TOKEN):
        assert judged(nothing, Caller.OTHER, token=[offered]) is not None
        assert judged(nothing, Caller.OTHER, f"/?token={offered}") is not None


@pytest.mark.parametrize("access", [OWN_USER, SET_TOKEN, EVERYBODY_BY_TOKEN])
def test_one_visit_with_the_token_gives_a_browser_a_cookie_for_pages_alone(access: Access) -> None:
    answer, cookie = visit(access, f"/status?token={TOKEN}&a=1")
    headers = dict(answer.headers)
    assert (answer.status, headers["location"]) == (303, "/status?a=1")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    assert TOKEN not in headers["set-cookie"]
    kept = [f"other=1; {cookie}"]
    for path in ("/status", "/metrics", "/api/overview"):
        assert judged(access, Caller.OTHER, path, cookie=kept) is None
        assert judged(access, Caller.OTHER, path, cookie=["pilothouse=x"]) is not None
    # A cookie goes to every port of its host: it must not start programs.
    for path in ("/mcp", "/mcp/key", "/message", "/%6dcp", "/mcp/"):
        assert judged(access, Caller.OTHER, path, cookie=kept) is not None
    assert judged(access, Caller.OTHER, "/status", method="POST", cookie=kept) is not None


def test_a_visit_leads_nowhere_else_and_a_wrong_one_gets_no_cookie() -> None:
    answer, _ = visit(OWN_USER, f"//evil.example/?token={TOKEN}")
    assert dict(answer.headers)["location"] == "/evil.example/"
    for target in ("/?token=wrong", f"/mcp?token={TOKEN}", "/?token="):
        refused = judged(OWN_USER, Caller.OTHER, target)
        assert refused is not None
        assert refused.status == 403


def test_a_cookie_over_https_is_sent_no_other_way() -> None:
    secure = Access(token=lambda: TOKEN, by_token_alone=True, is_https=True)
    answer, _ = visit(secure, f"/?token={TOKEN}")
    assert dict(answer.headers)["set-cookie"].endswith("; Secure")


def test_a_listener_without_pages_takes_the_header_alone() -> None:
    bare = Access(token=lambda: TOKEN, has_pages=False, shown_by="pilothouse token")
    refused = judged(bare, Caller.OTHER, f"/packets?token={TOKEN}")
    assert refused is not None
    assert b"`pilothouse token`" in refused.body
    assert judged(bare, Caller.OTHER, "/packets", token=[TOKEN]) is None
