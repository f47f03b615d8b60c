"""Chromium's settings without which it would go round the filtering proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.core.net.url_policy import canonical_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.core.net.url_policy import Origin

# Chromium never asks a proxy about this machine unless told to. Later rules win over earlier ones,
# so that this one comes first and the exceptions to it after.
PROXY_LOOPBACK_TOO = "<-loopback>"
NOWHERE = "http://localhost:1/"


# The pages behind the address bar's suggestions. Chromium loads them at each start, headless too:
# 1.1 of the 1.9 seconds of CPU that a start takes, and a process of 150 MB that nobody looks at.
UNSEEN_FEATURES = ("WebUIOmniboxAimPopup", "WebUIOmniboxPopup")
# Chromium takes the last --disable-features alone, and ours comes after Playwright's: what
# Playwright turns off for its own reasons has to be in ours, too. A test compares the two.
PLAYWRIGHT_FEATURES = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
    "msForceBrowserSignIn",
    "msEdgeUpdateLaunchServicesPreferredVersion",
)


def feature_flag() -> str:
    """Return the argument that turns off what nobody sees in a browser without a window."""
    return f"--disable-features={','.join((*PLAYWRIGHT_FEATURES, *UNSEEN_FEATURES))}"


def policy_flags(proxy_port: int) -> list[str]:
    """Return the arguments for a browser all of whose traffic goes through this port's proxy."""
    return [
        f"--proxy-server=http://127.0.0.1:{proxy_port}",
        f"--proxy-bypass-list={PROXY_LOOPBACK_TOO}",
        # With a proxy the browser has nothing to resolve. Without this it still would: for
        # dns-prefetch, and for the names of STUN servers; and whatever found a way round the
        # proxy could go anywhere. What is left are the proxy and the session's own servers.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE ::1,"
        " EXCLUDE localhost, EXCLUDE *.localhost",
        # WebRTC sends UDP to any address a page names. Chromium 156 knows no other switch for it:
        # the older one, with "force-" before the name, is ignored in silence.
        "--webrtc-ip-handling-policy=disable_non_proxied_udp",
        # UDP past the proxy to own origins, which HTTP serves just as well.
        "--disable-quic",
        # What the browser asks for on its own account would be noise among a page's requests.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-domain-reliability",
        "--disable-sync",
        # These it asks for all the same, at every start and for every form that a page has, unless
        # they live where nothing is: no browser connects to port 1.
        f"--component-updater=url-source={NOWHERE}",
        f"--gaia-url={NOWHERE}",
        f"--autofill-server-url={NOWHERE}",
    ]


def trust_flags(key: str) -> list[str]:
    """Return arguments to take any certificate made with this key and no other; none for no key."""
    return [f"--ignore-certificate-errors-spki-list={key}"] if key else []


def bypass_list(own_origins: Iterable[Origin]) -> str:
    """Return what a browser context may reach without the proxy, for Playwright's `proxy.bypass`.

    Only this machine's own names: another own origin goes through the proxy, which lets it pass,
    because names are resolved nowhere else. For a context only: given to `launch`, Playwright puts
    its own `<-loopback>` last, where it undoes the exceptions.
    """
    hosts = ((canonical_host(host), port) for _, host, port in own_origins)
    own = {f"{host}:{port}" for host, port in hosts if host.is_localhost}
    return ";".join([PROXY_LOOPBACK_TOO, *sorted(own)])
