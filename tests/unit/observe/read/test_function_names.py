"""The function that a position of a source lies in."""

from __future__ import annotations

import pytest

from pilothouse.observe.read.function_names import enclosing_function

SOURCE = """class Shop extends Base {
  async load({id, name}, opts = {}) { const x = `a{${id}`; await this.fetch(x); }
  static of = (a: string): Shop => { return make(a) }
}
const render = () => items.map(item => boom(item));
export default function App({user}: Props) {
  useEffect(() => { hit() }, []);
  if (user) { click() } // a brace in a remark: }
  return <p>{user.name}</p>
}
const obj = { onClick: function () { zap() }, short(a) { zip() } };
top();
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("this.fetch", "load"),
        ("make(a)", "of"),
        ("boom(", "render"),
        ("hit()", "App"),
        ("click()", "App"),
        ("user.name", "App"),
        ("zap()", "onClick"),
        ("zip()", "short"),
        ("top()", ""),
    ],
)
def test_a_position_is_named_by_the_innermost_function_with_a_name(code: str, name: str) -> None:
    at = SOURCE.index(code)
    line, column = SOURCE.count("\n", 0, at) + 1, at - SOURCE.rfind("\n", 0, at)
    assert enclosing_function(SOURCE, line, column) == name


def test_a_position_beyond_the_source_has_no_name() -> None:
    assert enclosing_function("function a() {", 9, 1) == ""
    assert enclosing_function("", 1, 1) == ""
