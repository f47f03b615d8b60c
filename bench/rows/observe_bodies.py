"""Two thousand fetches, then away to another origin: what of them is still there?"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.browser import Stage, Watch, open_stage, pilothouse, watched
from bench.peers import DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop
from bench.peers.browsing import BrowsingPeer, on_browser
from bench.row import Bound, Noted, Row, Samplers
from bench.wire import StdioServer, WireError

FETCHES = 2_000
KINDS = ("request", "response", "loadingFinished")
ASKED_OF_PEERS = 50


def readable_bodies(server: StdioServer, stage: Stage) -> Noted:
    """Fetches whose request, response, finish and body are all there after the page has gone."""
    with (
        stage.tab("/empty", "empty") as target,
        watched(server, stage, target, bufferSize=4 * FETCHES) as watch,
    ):
        stage.visit(target, stage.url(f"/fetches?n={FETCHES}"))
        stage.visit(target, stage.url("/empty", "localhost"), "empty")
        seen = recorded(watch)
        whole = set.intersection(*(set(seen[kind]) for kind in KINDS))
        readable = sum(has_body(watch, seen["request"][item], item) for item in whole)
        counts = ", ".join(f"{len(seen[kind]):,} {kind}" for kind in KINDS)
        return Noted(readable, counts)


def recorded(watch: Watch) -> dict[str, dict[int, str]]:
    """By kind: the number of each fetched item, and its request id."""
    seen: dict[str, dict[int, str]] = defaultdict(dict)
    for page in watch.pages(kinds=list(KINDS), urlIncludes="/item/"):
        if page["dropped"]:
            raise WireError(f"{page['dropped']} events made room in a ring that is large enough")
        for event in page["events"]:
            seen[event["kind"]][int(event["url"].rsplit("/", 1)[1])] = event["requestId"]
    return seen


def has_body(watch: Watch, request_id: str, item: int) -> bool:
    try:
        answer = watch.ask("cdp_get_response_body", requestId=request_id)
    except WireError:
        return False
    return is_body(answer["body"], item)


def is_body(text: str, item: int) -> bool:
    return f'"item":{item},' in text


def readable_bodies_of_peer(peer: BrowsingPeer, stage: Stage) -> Noted:
    """The same of a peer, from a sample: one call each for all of them would take minutes."""
    url = stage.url(f"/fetches?n={FETCHES}")
    peer.open(url)
    stage.chromium.wait_for_title(stage.target_of(url))
    peer.navigate(stage.url("/empty", "localhost"))
    listed = peer.listed_requests("/item/")
    asked = listed[:: max(1, len(listed) // ASKED_OF_PEERS)][:ASKED_OF_PEERS]
    readable = sum('"item":' in peer.body(request) for request in asked)
    share = readable / len(asked) if asked else 0.0
    return Noted(
        share * len(listed), f"{len(listed):,} still listed, {readable} of {len(asked)} asked"
    )


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    with ExitStack() as opened:
        stage = opened.enter_context(open_stage())
        server = opened.enter_context(pilothouse(workshop))
        samplers = {PILOTHOUSE: partial(readable_bodies, server, stage)}
        for name in ROW.peers:
            own = opened.enter_context(open_stage())
            peer = opened.enter_context(on_browser(workshop, name, own.chromium.port))
            samplers[name] = partial(readable_bodies_of_peer, peer, own)
        yield samplers


ROW = Row(
    name="observe-bodies",
    title=f"Bodies of {FETCHES:,} fetches that are readable after leaving for another origin",
    subject=PILOTHOUSE,
    peers=(DEVTOOLS, PLAYWRIGHT),
    unit="bodies",
    better="higher",
    bound=Bound(FETCHES),
    run=run,
    exact=True,
)
