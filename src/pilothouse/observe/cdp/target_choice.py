"""Which target a call means, and why one cannot be observed, or a request has no body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.observe.cdp.client import CdpTimeout
from pilothouse.observe.cdp.endpoint import START_HINT
from pilothouse.observe.model import BrowserUnreachable, TargetNotFound
from pilothouse.observe.read.query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.observe.cdp.browser import Browser
    from pilothouse.observe.cdp.endpoint import CdpEndpoint
    from pilothouse.observe.model import Target
    from pilothouse.observe.record.observation import Observation


def choose(
    targets: Iterable[Target], target_id: str | None, url_includes: str | None, where: CdpEndpoint
) -> Target:
    """Return the target of an id, or the first whose address fits.

    Raises:
        TargetNotFound: there is none.
    """
    offered = [target for target in targets if not target.is_internal]
    if target_id:
        fitting = [target for target in offered if target.id == target_id]
    else:
        fitting = [target for target in offered if (url_includes or "") in target.url]
        # A page rather than its frames and workers, which come along with it.
        fitting.sort(key=lambda target: target.type != "page")
    if not fitting:
        wanted = f"targetId={target_id}" if target_id else f"urlIncludes={url_includes}"
        raise TargetNotFound(
            f"No target matches: {wanted}",
            hint="call cdp_list_targets to see what is open",
            host=where.host,
            port=where.port,
        )
    return fitting[0]


def unattachable(
    target: Target, error: Exception, browser: Browser
) -> BrowserUnreachable | TargetNotFound:
    """Return the fault for a target that was there and could not be attached to."""
    if not browser.cdp.is_open:
        return BrowserUnreachable(
            f"the browser went away while {target.id} was attached to",
            hint=START_HINT,
            targetId=target.id,
            cause=str(error),
        )
    if isinstance(error, TimeoutError | CdpTimeout):
        return BrowserUnreachable(
            f"target {target.id} did not answer in time",
            hint="the tab may be frozen or discarded: bring it to the front, then try again",
            targetId=target.id,
            cause=str(error),
        )
    return TargetNotFound(
        f"target {target.id} cannot be attached to",
        hint="call cdp_list_targets again",
        targetId=target.id,
        cause=str(error),
    )


def bodiless(observation: Observation, request_id: str) -> str:
    """Return why a request has no body, by what was recorded; the browser does not say why.

    Empty if nothing recorded tells.
    """
    known = observation.normalizer.requests.get(request_id)
    if known is None:
        return ""
    if known.url.startswith(("data:", "blob:")):
        return "it never came over the network; the page had it already"
    failed = Query(kinds=("loadingFailed",), request_id=request_id)
    for _, seen in observation.ring.read(0, 1, failed.matcher()).items:
        return f"it failed ({seen.unpack()['errorText'] or 'the browser does not say why'})"
    return "" if known.status else "no answer to it was recorded yet"
