"""Planted faults with noise beside them: the pages, what the server does, and the right answers.

Each case is a page with one fault. While it happens, the page polls what is not there, retries,
sends analytics to nobody, logs its warnings twice and looks for a socket of its dev server, at
times that a seed decides (`noise.js`). Then a step fails, and its first cause must be the fault.

The table was written before the ranking that it judges. Standard library only: `server.py` reads it
without the package.
"""

from __future__ import annotations

from typing import NamedTuple


class Route(NamedTuple):
    """What the server answers to a path, and what it writes meanwhile."""

    status: int = 200
    log: str = ""
    """An error of this text, written before the answer."""
    form: str = "traceback"
    """`traceback`, `line`, `path` (a line with the request's path), `id` (with its id) or `mixed`
    (a traceback within that of another thread, which a client has left)."""
    stream: str = "stderr"
    ms: int = 0
    """Before anything else."""
    after_ms: int = 0
    """Between what is written and the answer."""
    body: str = "{}"
    access: bool = True
    """Whether a line of the access log follows, as most frameworks write one."""


ROUTES = {
    # Noise
    "/api/poll": Route(404),
    "/api/flaky": Route(500, "UpstreamGone: the cache does not answer"),
    "/api/left": Route(404, "ConnectionResetError: [Errno 104] Connection reset by peer"),
    "/collect": Route(404),
    "/pixel.gif": Route(404),
    # Faults
    "/api/save": Route(500, "DBDown: DB down at save()"),
    "/api/quiet-save": Route(500, "Error: DB down at save()", "line", access=False),
    "/api/mixed": Route(500, "DBDown: DB down at save()", "mixed"),
    "/api/stats": Route(404),
    "/api/sum": Route(500),
    "/api/named": Route(500, "ERROR the shelf is gone", "path", access=False),
    "/api/items": Route(500, "NoTable: no such table: items"),
    "/api/coupon": Route(404, body='{"error": "no such coupon"}'),
    "/api/boom": Route(500, "OldNews: the page before broke"),
    "/api/late-boom": Route(500, "OldNews: long after its page was left", ms=350),
    "/api/alpha": Route(500, "ERROR alpha broke", "id", ms=60, access=False),
    "/api/beta": Route(500, "ERROR beta broke", "id", access=False, after_ms=60),
    "/api/gamma": Route(500, "ERROR gamma broke", "path", ms=60, access=False),
    "/api/delta": Route(500, "ERROR delta broke", "path", access=False, after_ms=60),
    "/api/first": Route(200, "ERROR first is deprecated", "line", access=False),
    "/api/second": Route(500, access=False),
    "/api/out": Route(500, "ERROR the shelf is empty", "line", "stdout"),
    "/api/works-on": Route(500, "DBDown: DB down at save()", after_ms=250),
    "/api/mail": Route(200, "Error: the mail was not sent", "line"),
    "/api/half": Route(200, body='{"items": ['),
    "/api/null": Route(200, body="null"),
    "/api/ok": Route(200),
    "/order": Route(500, "NoStock: nothing is left", body="<h1>Internal Server Error</h1>"),
    "/missing.js": Route(404),
}
RESET = "/api/reset"
"""The server closes the connection without an answer."""


class Case(NamedTuple):
    """One planted fault. `script` defines `go()`, which the button calls; `done()` ends it."""

    name: str
    script: str
    cause: tuple[str, ...]
    """What the first cause says, all of it."""
    seen: tuple[str, ...] = ()
    """What the timeline must show of it before the step that fails is taken."""
    noise: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    """What the first cause must not say."""
    chain: tuple[str, str] | None = None
    """A console line, and the request that `causes` must lead it back to."""
    before: str = ""
    """The case whose page is visited, and left, before."""
    body: str = '<button id="go" onclick="go()">Go</button>'
    selector: str = "#result-panel"
    """What is waited for in vain."""
    clicks: tuple[str, ...] = ("#go",)
    tool: str = "waitForSelector"
    helps: bool = False
    """Only visited by other cases."""


DB = ("POST /api/save answered 500", "DB down at save()")
SAVE = "await post('/api/save'); done()"
LATER = "await post('/api/save'); setTimeout(() => { done(); boom('save failed') }, 300)"
THREW = ("the page threw TypeError: planted",)
BOOM = "done(); boom('planted')"

CASES = (
    # A 500 that the click sent
    Case(
        "save-then-throw-beside-a-poll",
        LATER,
        DB,
        ("/api/save → 500", "DB down", "TypeError: save failed"),
        ("poll",),
        chain=("TypeError: save failed", "/api/save"),
    ),
    Case("save-beside-analytics", SAVE, DB, ("DB down", "/api/save → 500"), ("beacon",)),
    Case(
        "save-with-a-click-beacon",
        f"navigator.sendBeacon('/collect', 'click'); {SAVE}",
        DB,
        ("DB down", "/api/save → 500"),
        ("beacon", "pixel"),
    ),
    Case(
        "save-beside-a-500-that-repeats",
        SAVE,
        DB,
        ("DB down", "/api/save → 500"),
        ("flaky",),
        never=("UpstreamGone",),
    ),
    Case(
        "save-and-a-404-at-once",
        "await Promise.all([post('/api/save'), get('/api/stats')]); done()",
        DB,
        ("DB down", "/api/save → 500", "/api/stats → 404"),
        ("poll",),
    ),
    Case(
        "two-500s-at-once-and-one-is-in-the-log",
        "await Promise.all([get('/api/sum'), post('/api/named')]); done()",
        ("POST /api/named answered 500", "the shelf is gone"),
        ("the shelf", "/api/sum → 500", "/api/named → 500"),
        ("poll",),
    ),
    Case(
        "save-with-two-retries",
        "for (const _ of [1, 2, 3]) { await post('/api/save'); await pause(40) } done()",
        DB,
        ("DB down", "/api/save → 500"),
        ("poll", "warnings"),
    ),
    Case(
        "a-list-that-strict-mode-loads-twice",
        "get('/api/items'), get('/api/items').then(done)",
        ("GET /api/items answered 500", "no such table: items"),
        ("no such table", "/api/items → 500"),
        ("warnings",),
        body='<script>addEventListener("load", () => go())</script>',
        clicks=(),
    ),
    Case("save-beside-hmr-sockets", SAVE, DB, ("DB down", "/api/save → 500"), ("socket", "poll")),
    Case(
        "save-long-after-the-click",
        f"await pause(220); {SAVE}",
        DB,
        ("DB down", "/api/save → 500"),
        ("poll",),
    ),
    Case(
        "save-that-works-on-after-its-traceback",
        "await post('/api/works-on'); done()",
        ("POST /api/works-on answered 500", "DB down at save()"),
        ("DB down", "/api/works-on → 500"),
        ("poll", "flaky"),
        never=("UpstreamGone",),
    ),
    Case(
        "save-of-a-server-without-an-access-log",
        "await post('/api/quiet-save'); done()",
        ("POST /api/quiet-save answered 500", "DB down at save()"),
        ("DB down", "/api/quiet-save → 500"),
        ("poll", "beacon"),
    ),
    Case(
        "save-whose-traceback-is-within-another",
        "await post('/api/mixed'); done()",
        ("POST /api/mixed answered 500", "DB down at save()"),
        ("DB down", "/api/mixed → 500"),
        ("left",),
        never=("ConnectionReset",),
    ),
    Case(
        "an-error-on-stdout",
        "await get('/api/out'); done()",
        ("GET /api/out answered 500", "the shelf is empty"),
        ("the shelf", "/api/out → 500"),
        ("poll",),
    ),
    # Which line of the log
    Case(
        "lines-with-ids-come-in-the-other-order",
        "await Promise.all([get('/api/alpha', 'alpha-1f2e3d4c5b'),"
        " get('/api/beta', 'beta-6a7b8c9d0e')]); done()",
        ("/api/alpha answered 500", "alpha broke"),
        ("alpha broke", "beta broke", "/api/alpha → 500", "/api/beta → 500"),
        ("poll",),
        never=("beta broke",),
    ),
    Case(
        "lines-with-paths-come-in-the-other-order",
        "await Promise.all([get('/api/gamma'), get('/api/delta')]); done()",
        ("/api/gamma answered 500", "gamma broke"),
        ("gamma broke", "delta broke", "/api/gamma → 500", "/api/delta → 500"),
        ("poll",),
        never=("delta broke",),
    ),
    Case(
        "a-line-of-the-request-before",
        "await get('/api/first'); await pause(120); await get('/api/second'); done()",
        ("GET /api/second answered 500",),
        ("first is deprecated", "/api/second → 500"),
        ("poll",),
        never=("first is deprecated",),
    ),
    Case(
        "only-the-log-knows",
        "await post('/api/mail'); done()",
        ("the server logged an error", "the mail was not sent"),
        ("the mail was not sent", "/api/mail → 200"),
        ("poll", "beacon"),
    ),
    # The page itself
    Case("throws-beside-a-poll", BOOM, THREW, ("planted",), ("poll",)),
    Case(
        "throws-beside-a-500-that-repeats",
        BOOM,
        THREW,
        ("planted",),
        ("flaky",),
        never=("flaky",),
    ),
    Case(
        "throws-with-a-click-beacon",
        f"navigator.sendBeacon('/collect', 'click'); {BOOM}",
        THREW,
        ("planted", "/collect → 404"),
        ("poll",),
    ),
    Case("throws-beside-another-that-repeats", BOOM, THREW, ("planted",), ("thrower", "warnings")),
    Case(
        "rejects-beside-a-poll",
        "done(); await Promise.reject(new TypeError('planted'))",
        THREW,
        ("planted",),
        ("poll", "socket"),
    ),
    Case(
        "throws-twice-in-strict-mode",
        "setTimeout(() => boom('planted')); setTimeout(() => { done(); boom('planted') })",
        THREW,
        ("planted",),
        ("poll", "warnings"),
    ),
    Case(
        "half-an-answer",
        "const a = await fetch('/api/half'); setTimeout(done); JSON.parse(await a.text())",
        ("the page threw SyntaxError",),
        ("SyntaxError", "/api/half → 200"),
        ("poll",),
        chain=("SyntaxError", "/api/half"),
    ),
    Case(
        "nothing-for-an-answer",
        "const a = await fetch('/api/null'); setTimeout(done); (await a.json()).items.length",
        ("the page threw TypeError: Cannot read properties of null",),
        ("Cannot read properties of null",),
        ("flaky",),
        chain=("Cannot read properties of null", "/api/null"),
    ),
    Case(
        "a-second-click-throws",
        "if (!window.once) { window.once = true; await get('/api/stats'); return done() } "
        + BOOM.replace("planted", "planted, the second time"),
        ("the page threw TypeError: planted, the second time",),
        ("planted, the second time",),
        ("poll",),
        clicks=("#go", "#go"),
    ),
    Case(
        "only-the-console-says-so",
        "console.error('the payment was declined'); done()",
        ("the console says the payment was declined",),
        ("the payment was declined",),
        ("warnings",),
        selector="text=Zzz",
    ),
    # 4xx, and no answer at all
    Case(
        "a-404-beside-a-404-that-repeats",
        "await get('/api/coupon'); done()",
        ("GET /api/coupon → 404",),
        ("/api/coupon → 404",),
        ("poll",),
    ),
    Case(
        "a-404-beside-a-500-that-repeats",
        "await get('/api/coupon'); done()",
        ("GET /api/coupon → 404",),
        ("/api/coupon → 404",),
        ("flaky",),
    ),
    Case(
        "a-404-with-a-click-beacon",
        "navigator.sendBeacon('/collect', 'click'); await get('/api/coupon'); done()",
        ("GET /api/coupon → 404",),
        ("/api/coupon → 404", "/collect → 404"),
        ("pixel",),
    ),
    Case(
        "a-connection-that-is-reset",
        "await get('/api/reset').catch(() => 0); done()",
        ("GET /api/reset → net::ERR",),
        ("/api/reset → net::ERR",),
        ("poll",),
    ),
    Case(
        "a-form-that-gets-a-500",
        "document.forms[0].submit()",
        ("POST /order answered 500", "nothing is left"),
        ("nothing is left", "/order → 500"),
        ("poll", "beacon"),
        body='<form method="post" action="/order"></form>'
        '<button id="go" onclick="go()">Go</button>',
    ),
    Case(
        "a-bundle-that-is-missing",
        "location = '/page/without-its-bundle'",
        ("GET /missing.js → 404",),
        ('/missing.js HTTP/1.1" 404',),
        ("poll",),
    ),
    # What stands in the way of the element itself
    Case(
        "a-veil-over-the-button",
        "done()",
        ("covers the element",),
        (),
        ("poll", "flaky"),
        body='<button id="go" onclick="go()">Go</button><button id="buy">Buy</button>'
        '<div id="veil" style="position:fixed;inset:60px 0 0 0;background:#eee"></div>'
        "<style>#buy{position:fixed;top:90px}</style>",
        selector="#buy",
        tool="click",
    ),
    # Pages that were left
    Case(
        "save-after-a-page-that-broke",
        SAVE,
        DB,
        ("DB down", "/api/save → 500"),
        ("poll",),
        never=("OldNews",),
        before="old-news",
    ),
    Case(
        "quiet-save-after-a-page-that-broke",
        "await get('/api/second'); done()",
        ("GET /api/second answered 500",),
        ("/api/second → 500",),
        never=("OldNews",),
        before="old-news",
    ),
    Case(
        "nothing-wrong-after-a-page-that-broke",
        "done()",
        ("nothing in the page resembles",),
        (),
        never=("OldNews", "old page", "/api/boom"),
        before="old-news",
    ),
    Case(
        "throws-while-the-page-before-still-fails",
        f"await pause(450); {BOOM}",
        THREW,
        ("planted", "long after its page was left"),
        ("poll",),
        never=("OldNews",),
        before="old-news-later",
    ),
    # Pages that other cases visit
    Case(
        "old-news",
        "await get('/api/boom'); done(); boom('of the old page')",
        (),
        body='<button id="go" onclick="go()">Go</button>',
        helps=True,
    ),
    Case("old-news-later", "get('/api/late-boom'); done()", (), helps=True),
    Case(
        "without-its-bundle",
        "",
        (),
        body='<script src="/missing.js"></script><i id="done"></i>',
        helps=True,
    ),
)
PLANTED = tuple(case for case in CASES if not case.helps)
