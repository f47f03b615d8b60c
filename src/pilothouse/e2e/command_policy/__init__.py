"""Which commands may be started: judged by program, arguments and files."""
