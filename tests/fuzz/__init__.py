"""Fuzzing that stays: tool calls drawn from the tools' own schemas, and odd bytes for every socket.

python -m tests.fuzz --seconds 600 --seed 7      what `make fuzz` runs

values.py      texts, numbers and ids that are worth trying
arguments.py   a tool's schema → arguments, most of them valid
harmless.py    what no call may do to the machine
clients.py     one agent of either era, over HTTP or stdio
servers.py     a hub and a `--standalone`, with an app, a Chrome and a hostile browser
browser.py     that hostile browser: a debugging port whose frames are odd
frames.py      odd bytes for every socket
places.py      the sockets that get them
pipe.py        one of them: the pipe of a browser, shared by its driver and the observer
processes.py   the engine and the parent of workers, which know their owner alone
lanes.py       what runs side by side; run.py puts all of it together
judge.py       what counts as an incident, and the figures of a run
corpus.py      the inputs that are kept in corpus/ and sent again by test_corpus.py
"""
