"""Reading a snapshot: refs for text without one, and values as they were typed."""

from __future__ import annotations

from pilothouse.e2e.browser.elements.aria_tree import matching, refs_of_fields, with_values

TREE = """\
- list [ref=e1]:
  - listitem "Lamp" [ref=e2]:
    - text: Sold out
    - button "Buy" [ref=e3]
  - text: none left
- textbox "Name" [ref=e4]: a b
- textbox "Code" [ref=e5]:
  - /placeholder: 1 2
  - text: x y
- 'textbox "A: b" [ref=e6]': one two
- text: The end"""


def test_a_text_without_a_ref_is_told_with_the_element_around_it() -> None:
    assert matching(TREE, "sold OUT") == ['text: Sold out (in listitem "Lamp" [ref=e2])']
    assert matching(TREE, "none left") == ["text: none left (in list [ref=e1])"]
    assert matching(TREE, "buy") == ['button "Buy" [ref=e3]']
    assert matching(TREE, "the end") == ["text: The end"]
    assert matching(TREE, "nothing") == []


def test_values_have_their_spaces_where_they_stand() -> None:
    assert refs_of_fields(TREE) == ["e4", "e5", "e6"]
    made = with_values(
        TREE, {"e4": (" a  b", False), "e5": ("x\ny", True), "e6": ("one two", False)}
    )
    changed = [line for line in made.splitlines() if line not in TREE.splitlines()]
    assert changed == [
        '- textbox "Name" [ref=e4]: " a  b"',
        '- textbox "Code" [ref=e5] [multiline]:',
        '  - text: "x\\ny"',
    ]
