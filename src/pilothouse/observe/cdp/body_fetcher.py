"""Asking the browser for response bodies: at once while it surely has them, or when one is read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pilothouse.observe.cdp.client import CdpError, CdpTimeout
from pilothouse.observe.record.bodies import MAX_BODY_BYTES, body_of, is_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from pilothouse.observe.cdp.client import Cdp
    from pilothouse.observe.model import Body
    from pilothouse.observe.record.observation import Observation

BODY_S = 20.0
"""Seconds that a browser may take for a body: more than one of 200 MB takes on a busy machine, and
less than clients wait for a call."""
_GET = "Network.getResponseBody"


class BodyFetcher:
    """The fetcher of one browser's response bodies."""

    def __init__(self, cdp: Callable[[], Cdp], plain: Mapping[str, str]) -> None:
        """Take as `plain`, for a page's session, a second one without durable messages, which alone
        has what a service worker answered."""
        self._cdp = cdp
        self._plain = plain

    def fetch(self, observation: Observation, params: dict[str, Any], session: str) -> None:
        """Ask for a text body at once, while the browser surely has it."""
        request_id = params["requestId"]
        known = observation.normalizer.requests.get(request_id)
        if known is None or not is_text(known.mime_type):
            return
        if params.get("encodedDataLength", 0) > MAX_BODY_BYTES:
            return
        mime_type, charset, cdp = known.mime_type, known.charset, self._cdp()

        def keep(answer: asyncio.Future[dict[str, Any]], other: str = "") -> None:
            if answer.cancelled():
                return
            if answer.exception() is not None:
                if other:
                    ask(other).add_done_callback(keep)
                return
            result = answer.result()
            text = str(result.get("body", ""))
            if len(text) <= MAX_BODY_BYTES:
                encoded = bool(result.get("base64Encoded"))
                body = body_of(mime_type, charset, text, encoded=encoded)
                observation.bodies.keep(request_id, body)

        def ask(session: str) -> asyncio.Future[dict[str, Any]]:
            return cdp.post(_GET, {"requestId": request_id}, session)

        plain = self._plain.get(session, "")
        # Only the plain session has a body of what a service worker answered, and not for long.
        first, other = (plain, session) if plain and known.from_worker else (session, plain)
        ask(first).add_done_callback(partial(keep, other=other))

    async def body(self, observation: Observation, request_id: str, page: str) -> Body:
        """Ask for a body when it is read; `page` is the session of the page itself.

        Raises:
            CdpError: with the browser's own reason.
        """
        session = observation.session_of.get(request_id) or page
        asked = {"requestId": request_id}
        try:
            answer = await self._cdp().call(_GET, asked, session, BODY_S)
        except CdpTimeout:
            raise
        except CdpError:
            plain = self._plain.get(session)
            if not plain:
                raise
            answer = await self._cdp().call(_GET, asked, plain, BODY_S)
        known = observation.normalizer.requests.get(request_id)
        return body_of(
            known.mime_type if known else "",
            known.charset if known else "",
            str(answer.get("body", "")),
            encoded=bool(answer.get("base64Encoded")),
        )
