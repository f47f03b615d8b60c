"""The intercepting proxy with every packet stored, beside a bare `mitmdump -q` that stores none."""

import asyncio
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers import PILOTHOUSE, Workshop
from bench.proc import rss, settled
from bench.row import Bound, Noted, Row, Samplers
from pilothouse.intercept.engine_process import EngineProcess, open_engine
from pilothouse.machine.child import start_child
from tests.support.ports import free_port
from tests.support.upstreams import Authority, authority, http_upstream

MITMDUMP = "mitmdump -q"
MB = 1_000_000
CLIENTS = 20
REQUESTS = 2_000
BODY = 1_024
GIB = 1 << 30
START_S = 60.0
WATCH_S = 0.02
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % BODY
ANSWER = _ANSWER + b"x" * BODY


class _Quick(asyncio.Protocol):
    """Answers every request with the same bytes: the server must not be what is measured."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER * data.count(b"\r\n\r\n"))


@asynccontextmanager
async def quick_upstream(context: ssl.SSLContext | None) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Quick, "127.0.0.1", 0, ssl=context)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        server.close_clients()


@dataclass(frozen=True)
class Contender:
    """A proxy with the clients that are connected through it and stay so."""

    clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    request: bytes

    async def rate(self) -> float:
        """Requests a second over all clients, each asking again when it is answered."""
        share = REQUESTS // len(self.clients)
        start = time.perf_counter()
        await asyncio.gather(*(self._ask(*client, share) for client in self.clients))
        return share * len(self.clients) / (time.perf_counter() - start)

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, times: int
    ) -> None:
        for _ in range(times):
            writer.write(self.request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(BODY)


async def connect(
    proxy: int, upstream: int, trust: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
    if trust:
        target = f"localhost:{upstream}"
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0], head
        await writer.start_tls(trust, server_hostname="localhost")
    return reader, writer


async def contender(proxy: int, upstream: int, trust: ssl.SSLContext | None) -> Contender:
    clients = [await connect(proxy, upstream, trust) for _ in range(CLIENTS)]
    target = "/" if trust else f"http://127.0.0.1:{upstream}/"
    return Contender(clients, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


@asynccontextmanager
async def ours(folder: Path, ca: Authority) -> AsyncIterator[tuple[EngineProcess, int]]:
    """Our engine and the port of a listener that belongs to no session."""
    port = free_port()
    listen = {"id": 1, "enabled": True, "type": "HTTP_PROXY", "port": port, "server_id": -1}
    config = {"listenPorts": [listen], "servers": [], "modifications": [], "sslPassThroughs": []}
    options = ["--upstream-ca", str(ca.ca_file)]
    async with open_engine(folder, start_child, lambda _: None, options=options) as engine:
        await engine.ask("configure", within=START_S, config=config)
        yield engine, port


@asynccontextmanager
async def mitmdump(folder: Path, ca: Authority) -> AsyncIterator[int]:
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("mitmdump")), "-q", "--listen-host", "127.0.0.1",
        "-p", str(port), "--set", f"confdir={folder}",
        "--set", f"ssl_verify_upstream_trusted_ca={ca.ca_file}",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    try:
        await _accepts(port)
        yield port
    finally:
        process.terminate()
        await process.wait()


async def _accepts(port: int) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


@contextmanager
def run_throughput(_: Workshop, *, tls: bool) -> Iterator[Samplers]:
    with TemporaryDirectory() as scratch, asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            both = runner.run(_stage(stack, Path(scratch), tls=tls))
            yield {name: partial(_rate, runner, one) for name, one in both.items()}
        finally:
            runner.run(stack.aclose())


async def _stage(stack: AsyncExitStack, folder: Path, *, tls: bool) -> dict[str, Contender]:
    ca = authority(folder)
    upstream = await stack.enter_async_context(quick_upstream(ca.context() if tls else None))
    _, mine = await stack.enter_async_context(ours(folder / "ours", ca))
    (folder / "theirs").mkdir()
    theirs = await stack.enter_async_context(mitmdump(folder / "theirs", ca))
    trusts = [
        ssl.create_default_context(cafile=place / "mitmproxy-ca-cert.pem") if tls else None
        for place in (folder / "ours" / "ca", folder / "theirs")
    ]
    return {
        PILOTHOUSE: await contender(mine, upstream, trusts[0]),
        MITMDUMP: await contender(theirs, upstream, trusts[1]),
    }


def _rate(runner: asyncio.Runner, one: Contender) -> float:
    return runner.run(one.rate())


@contextmanager
def run_large_body(_: Workshop) -> Iterator[Samplers]:
    with TemporaryDirectory() as scratch, asyncio.Runner() as runner:
        yield {PILOTHOUSE: lambda: runner.run(large_body(Path(scratch)))}


async def large_body(folder: Path) -> Noted:
    """Megabytes by which RSS grows at most while 1 GiB passes."""
    async with (
        http_upstream() as server,
        ours(folder / "ours", authority(folder)) as (engine, port),
    ):
        await _download(
            port, server.port, 1 << 20
        )  # what the first request loads is not the body's
        pid = engine.pid
        assert pid
        before = await asyncio.to_thread(settled, partial(rss, pid))
        readings: list[int] = []
        watching = asyncio.create_task(_watch(pid, readings))
        await _download(port, server.port, GIB)
        watching.cancel()
        peak = max(readings)
    return Noted((peak - before) / MB, f"from {before / MB:.1f} to {peak / MB:.1f} MB")


async def _watch(pid: int, readings: list[int]) -> None:
    while True:
        readings.append(rss(pid))
        await asyncio.sleep(WATCH_S)


async def _download(proxy: int, upstream: int, size: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
    target = f"http://127.0.0.1:{upstream}/bytes/{size}"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    received = 0
    while received < size:
        piece = await reader.read(1 << 16)
        assert piece, f"the body ended after {received} of {size} bytes"
        received += len(piece)
    writer.close()


def _throughput(name: str, title: str, *, tls: bool) -> Row:
    return Row(
        name=name,
        title=f"Requests a second through the proxy, {title}, {BODY} bytes, {CLIENTS} clients",
        subject=PILOTHOUSE,
        peers=(MITMDUMP,),
        unit="/s",
        better="higher",
        bound=Bound(1.0, of=MITMDUMP),
        run=partial(run_throughput, tls=tls),
    )


PLAIN = _throughput("intercept-plain", "plain HTTP", tls=False)
TLS = _throughput("intercept-tls", "TLS", tls=True)
LARGE_BODY = Row(
    name="intercept-large-body",
    title="RSS that a body of 1 GiB adds while it passes",
    subject=PILOTHOUSE,
    peers=(),
    unit="MB",
    better="lower",
    bound=Bound(32),
    run=run_large_body,
    exact=True,
)
