"""The ways in which a page can make its browser go somewhere.

`TO` stands for the URL to reach, `WS` for the same as a WebSocket's, `HOST` for its host and port.
"""

from __future__ import annotations

from urllib.parse import quote


def page_with(body: str, **more: str) -> str:
    return "/?" + "&".join(f"{name}={quote(text)}" for name, text in {"body": body, **more}.items())


# Paths of the own app that lead away by themselves.
PATHS = {
    **{f"redirect-{code}": f"/?status={code}&Location=TO" for code in (301, 302, 303, 307, 308)},
    "meta-refresh": page_with("<meta http-equiv=refresh content='0;url=TO'>"),
    "refresh-header": "/?Refresh=0;url%3DTO",
    "csp-report": page_with(
        "<img src=/x>", **{"Content-Security-Policy": "img-src 'none'; report-uri TO"}
    ),
}
# Scripts after which the page is somewhere else.
LEAVING = {
    "location": "location = 'TO'",
    "replace": "location.replace('TO')",
    "link": "add('a', {href: 'TO'}).click()",
    "download": "add('a', {href: 'TO', download: 'x'}).click()",
    "form-post": "add('form', {action: 'TO', method: 'post'}).submit()",
    "beacon-on-leaving": "onpagehide = () => navigator.sendBeacon('TO', 'x'); location = '/'",
}
# Scripts that one page can run all together.
STAYING = {
    "window-open": "window.open('TO')",
    "noopener": "window.open('TO', '_blank', 'noopener')",
    "iframe": "add('iframe', {src: 'TO'})",
    "srcdoc": "add('iframe', {srcdoc: '<img src=TO>'})",
    "object": "add('object', {data: 'TO'})",
    "embed": "add('embed', {src: 'TO', type: 'text/html'})",
    "img": "add('img', {src: 'TO'})",
    "srcset": "add('img', {srcset: 'TO 1x'})",
    "video": "add('video', {src: 'TO'})",
    "script": "add('script', {src: 'TO'})",
    "module": "import('TO').catch(() => 0)",
    "stylesheet": "add('link', {rel: 'stylesheet', href: 'TO'})",
    "css-import": "add('style', {textContent: '@import url(TO)'})",
    "css-image": "add('p', {textContent: 'x', style: 'background: url(TO)'})",
    "font": "new FontFace('x', 'url(TO)').load().catch(() => 0)",
    "preload": "add('link', {rel: 'preload', as: 'fetch', href: 'TO', crossOrigin: ''})",
    "prefetch": "add('link', {rel: 'prefetch', href: 'TO'})",
    "fetch": "fetch('TO').catch(() => 0)",
    "fetch-post": "fetch('TO', {method: 'POST', mode: 'no-cors', body: 'x'}).catch(() => 0)",
    "keepalive": "fetch('TO', {mode: 'no-cors', keepalive: true}).catch(() => 0)",
    "redirected-fetch": "fetch('/?status=302&Location=TO', {mode: 'no-cors'}).catch(() => 0)",
    "xhr": "const x = new XMLHttpRequest(); x.open('GET', 'TO'); x.send()",
    "beacon": "navigator.sendBeacon('TO', 'x')",
    "event-source": "new EventSource('TO')",
    "websocket": "new WebSocket('WS')",
    "worker": "new Worker(code(`fetch('TO', {mode: 'no-cors'})`))",
    "worker-websocket": "new Worker(code(`new WebSocket('WS')`))",
    "import-scripts": "new Worker(code(`importScripts('TO')`))",
    "shared-worker": "new SharedWorker(code(`fetch('TO', {mode: 'no-cors'})`))",
    "service-worker": "navigator.serviceWorker.register('/sw.js?type=text/javascript&body='"
    " + encodeURIComponent(`fetch('TO', {mode: 'no-cors'}).catch(() => 0)`))",
    "turn-tcp": "const c = new RTCPeerConnection({iceServers: [{urls: 'turn:HOST?transport=tcp',"
    " username: 'u', credential: 'c'}]}); c.createDataChannel('x'); c.setLocalDescription()",
}
# In a tunnel the proxy sees no path; the canary sees no HTTP of the last one.
TUNNELLED = {"websocket", "worker-websocket", "turn-tcp"}
ROUTES = {*PATHS, *LEAVING, *STAYING}
TOOLS = """
const code = text => URL.createObjectURL(new Blob([text], {type: 'text/javascript'}));
const add = (name, {style, ...fields}) => {
    const made = Object.assign(document.createElement(name), fields);
    if (style) made.style = style;
    document.body.append(made);
    return made;
};
"""

# What does not go by HTTP: STUN, TURN, ICE, WebTransport and the names that they and links name.
UNPROXIED = """async ([udp, name]) => {
    const peer = new RTCPeerConnection({iceServers: [
        {urls: `stun:127.0.0.1:${udp}`},
        {urls: `turn:127.0.0.1:${udp}`, username: 'u', credential: 'c'},
        {urls: `stun:stun.${name}`},
    ]});
    const other = new RTCPeerConnection();
    peer.createDataChannel('x');
    await peer.setLocalDescription();
    await other.setRemoteDescription(peer.localDescription);
    await other.setLocalDescription();
    await peer.setRemoteDescription(other.localDescription);
    for (const host of ['127.0.0.1', `ice.${name}`]) {
        const candidate = `candidate:1 1 udp 2130706431 ${host} ${udp} typ host`;
        await peer.addIceCandidate({candidate, sdpMid: '0', sdpMLineIndex: 0}).catch(() => 0);
    }
    const sessions = [`127.0.0.1:${udp}`, `wt.${name}`].map(host => {
        try { return new WebTransport(`https://${host}/`) } catch { return null }
    });
    for (const rel of ['dns-prefetch', 'preconnect']) {
        const link = document.createElement('link');
        link.rel = rel;
        link.href = `http://${rel}.${name}/`;
        document.head.append(link);
    }
    const gathered = new Promise(done => {
        const check = () => peer.iceGatheringState === 'complete' && done();
        peer.onicegatheringstatechange = check;
        check();
    });
    await Promise.allSettled([gathered, ...sessions.map(one => one && one.ready)]);
    return 'tried';
}"""
