"""A command that is forked: for clients that start a server by its command line.

shim.py ADDRESS MODULE ARGS…    Run with `python -I -S`, which starts in a hundredth second. Its
standard streams, environment and folder become the process's; its end and its signals are shared.
"""

import json
import os
import signal
import socket
import sys


def main(address: str, module: str, args: list[str]) -> int:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    order = {"module": module, "args": args, "env": dict(os.environ), "cwd": os.getcwd()}
    body = json.dumps(order).encode()
    socket.send_fds(connection, [len(body).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(body)
    answers = connection.makefile("rb")
    pid = json.loads(answers.readline())["pid"]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: os.kill(pid, number))
    # The client waits for the end of the streams; ours must not keep them open.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    code: int = json.loads(answers.readline())["code"]
    return code if code >= 0 else 128 - code


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
