"""What dev servers say of an edit, as it was recorded from Vite and Next.js."""

from __future__ import annotations

from typing import Any

from pilothouse.e2e.app_server.logs.hot_reload import HotReload

UPDATE = '{"type":"update","updates":[{"type":"js-update","path":"/src/App.jsx"}]}'
FAILED = '{"type":"error","err":{"message":"Unexpected token (5:20)","id":"/app/src/App.jsx"}}'
HOT = "[vite] hot updated: /src/App.jsx"
BUILDING = '{"action":"building"}'
BUILT = '{"action":"built","hash":"1a","warnings":[],"errors":[]}'
BROKEN = (
    '{"action":"built","hash":"2b","warnings":[],"errors":[{"message":"x Expected \\u001b[31m<"}]}'
)
DONE = "[Fast Refresh] done in 109ms"


def fed(*words: str) -> HotReload:
    hot = HotReload()
    for number, word in enumerate(words):
        event: dict[str, Any] = {"kind": "console", "text": word}
        if word.startswith("{"):
            event = {"kind": "websocket", "direction": "recv", "payloadPreview": word}
        hot.feed({**event, "seq": number, "ts": 1_000.0 + number})
    return hot


def test_an_update_of_vite_is_in_when_each_of_its_modules_is() -> None:
    two = UPDATE.replace("}]", '},{"type":"css-update","path":"/a.css"}]')
    assert not fed(two, HOT).is_over
    assert fed(two, HOT, "[vite] css hot updated: /a.css").is_over


def test_an_edit_that_does_not_compile_is_an_error_with_its_file() -> None:
    hot = fed(UPDATE, FAILED, HOT)
    assert hot.is_over
    assert hot.error == "Unexpected token (5:20) (/app/src/App.jsx)"
    assert fed(UPDATE, FAILED, HOT, UPDATE, HOT).error == ""


def test_an_update_that_made_vite_load_the_page_anew_is_in_with_that_page() -> None:
    hot = fed(UPDATE, FAILED, UPDATE, '{"type":"connected"}')
    assert hot.is_over
    assert hot.reload_since


def test_an_older_build_of_next_is_not_the_end_after_an_error() -> None:
    broken = fed(BUILDING, BROKEN)
    assert broken.error == "x Expected <"
    older = fed(BUILDING, BROKEN, BUILT, DONE)
    assert not older.is_over
    assert older.in_doubt
    older.trust()
    assert older.is_over
    newer = fed(BUILDING, BROKEN, BUILT, DONE, BUILDING, BUILT, DONE)
    assert newer.is_over
    assert not newer.in_doubt
    assert newer.needs_reload, "Next's page keeps the code of before the error"
    assert not fed(BUILDING, BROKEN, BUILDING, BUILT, DONE, '{"action":"sync","errors":[]}').error


def test_a_build_under_way_is_waited_for() -> None:
    assert fed(BUILDING, BUILT, DONE).is_over
    assert not fed(BUILDING, BUILT, DONE, BUILDING).is_over
