"""Run by test_forkserver: shows a variable, its folder and its pid, or waits for its end."""

import os
import sys

if __name__ == "__main__":
    if sys.argv[1] == "wait":
        sys.stdin.read()
    sys.stdout.write(f"{os.environ.get(sys.argv[1])} {os.getcwd()} {os.getpid()}\n")
