"""Which function of a source a position lies in. Pure, and a guess where braces stand in regexes.

A source map names what stands at a position, which in a call is the function that is called. The
function that the position lies in is read from the source itself.
"""

from __future__ import annotations

import re

MAX_BEFORE = 64 * 1024
"""Characters before a position that are looked at."""
_LITERALS = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`", re.DOTALL
)
_PARAMETERS = r"\([^()]*(?:\([^()]*\)[^()]*)*\)"
_VALUE = rf"(?:async\s*)?(?:function\b|{_PARAMETERS}\s*(?::[^={{;]*)?=>|[\w$]+\s*=>)"
_DEFINITION = re.compile(
    rf"\bfunction\b\s*\*?\s*(?P<function>[\w$]+)(?=\s*[(<])"
    rf"|(?<![\w$])(?P<variable>[\w$]+)\s*(?::[^=;{{}}()]*)?=\s*{_VALUE}"
    rf"|(?<![\w$])(?P<property>[\w$]+)\s*:\s*{_VALUE}"
    rf"|(?<![\w$])(?P<method>[\w$]+)(?=\s*{_PARAMETERS}\s*(?::[^{{;=]*)?\{{)"
)
_NO_METHODS = frozenset({"if", "for", "while", "switch", "catch", "with", "function", "return"})
_MARKS = re.compile(r"[(){}\[\];,]")


def enclosing_function(content: str, line: int, column: int) -> str:
    """Return the name of the innermost named function around a position, line and column counted
    from 1; empty where there is none."""
    start = 0
    for _ in range(line - 1):
        start = content.find("\n", start) + 1
        if not start:
            return ""
    position = start + column - 1
    first = max(0, position - MAX_BEFORE)
    code = _LITERALS.sub(lambda found: " " * len(found[0]), content[first:])
    position -= first
    code = code[: position + MAX_BEFORE]
    found = [match for match in _DEFINITION.finditer(code) if match.start() < position]
    for match in reversed(found):
        name = match[match.lastgroup or 0]
        if name not in _NO_METHODS and _is_open(code, match, position):
            return name
    return ""


def _is_open(code: str, match: re.Match[str], position: int) -> bool:
    """Tell whether the body of what is defined there has begun and not ended at the position."""
    is_short = match[0].endswith("=>") and not code[match.end() :].lstrip().startswith("{")
    depth, in_body = 0, is_short
    for mark in _MARKS.finditer(code, match.end(), position):
        match mark[0]:
            case "{" if depth == 0 and not in_body:
                in_body, depth = True, 1
            case "(" | "{" | "[":
                depth += 1
            case ")" | "}" | "]":
                depth -= 1
                if depth < 0 or (in_body and not is_short and depth == 0):
                    return False
            case ";" | ",":
                if is_short and depth == 0:
                    return False
    return in_body
