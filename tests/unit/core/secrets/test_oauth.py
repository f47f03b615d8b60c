"""OAuth's code and state in lines of logs: masked beside each other, and nothing else with them."""

import json

import pytest

from pilothouse.core.secrets.oauth import looks_like_token
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK

REDACTOR = Redactor()

MASKED = r"""
callback code=4/0AfJohX state=af0ifjsl
level=info msg=callback code="4/0AfJohX" took=12ms state="af0ifjsl"
state=af0ifjsl code=4%2F0AfJohX
params: {"code"=>"4/0AfJohX", "state"=>"af0ifjsl"}
Parameters: {"code" => "4/0AfJohX", "state" => "af0ifjsl", "page" => "2"}
{'code': '4/0AfJohX', 'state': 'af0ifjsl'}
<QueryDict: {'code': ['4/0AfJohX'], 'state': ['af0ifjsl']}>
{ code: '4/0AfJohX', state: 'af0ifjsl' }
query code: 4/0AfJohX, state: af0ifjsl
{"level":"info","query":{"code":"4/0AfJohX","state":"af0ifjsl"}}
{"code":"4\/0AfJohX","state":"af0ifjsl"}
{"msg":"{\"code\":\"4/0AfJohX\",\"state\":\"af0ifjsl\"}"}
GET /cb?code%3D4%2F0AfJohX%26state%3Daf0ifjsl HTTP/1.1
/cb%3Fstate%3Daf0ifjsl%26code%3D4/0AfJohX
GET /cb?state=af0ifjsl&error=access_denied HTTP/1.1
GET /cb?state=af0ifjsl&error_description=no&page=1
GET /cb?state=af0ifjsl&iss=https%3A%2F%2Fidp.test
GET /cb?scope=email&state=af0ifjsl
""".strip().splitlines()

SHOWN = r"""
exited, code=404 state=running
exited code=1 state=af0
error code=ERR_MODULE_NOT_FOUND state=step_12
stock: {"code": "SKU12345", "state": "California", "n": 10}
{"code": 20261115, "state": "2026-11-15T10:00:00"}
callback code=4/0AfJohX status=af0ifjsl
status_code=4a0Ab81cD9 state=af0ifjsl
["code:", 1e3000000, "state:x"]
{"code": 1e3000000, "state": 1e3000000}
GET /issues?scope=all&state=opened
GET /jobs?state=failed&error=timeout
GET /shops?state=a1b2c3d4e5&page=2
""".strip().splitlines()


@pytest.mark.parametrize("line", MASKED)
def test_both_are_masked_where_one_line_has_both(line: str) -> None:
    for text in (line, f"first\n{line}\nlast"):
        masked = REDACTOR.text(text)
        assert "AfJohX" not in masked
        assert "af0ifjsl" not in masked
        assert "redacted" in masked
        assert REDACTOR.text(masked) == masked
        for packed in (json.dumps([text]), json.dumps({"text": text}, indent=1)):
            assert REDACTOR.suspects([packed.encode()]) == [True]
    if line.startswith('{"'):
        assert json.loads(REDACTOR.text(line)).keys() == json.loads(line).keys()


@pytest.mark.parametrize("line", SHOWN)
def test_numbers_words_and_what_stands_alone_are_shown(line: str) -> None:
    assert REDACTOR.text(line) == line


def test_two_lines_with_one_of_them_each_are_shown() -> None:
    text = "code=4/0AfJohX\nstate=af0ifjsl"
    assert REDACTOR.text(text) == text
    assert REDACTOR.text(text.replace("\n", " ")) == f"code={MASK} state={MASK}"


def test_the_state_in_records_is_masked_beside_a_scope_if_it_looks_like_a_token() -> None:
    def records(state: str) -> list[dict[str, str]]:
        return [{"name": "scope", "value": "all"}, {"name": "state", "value": state}]

    assert REDACTOR.value(records("opened")) == records("opened")
    assert REDACTOR.value(records("af0ifjsl")) == records(MASK)


@pytest.mark.parametrize(
    "value",
    "4a0Ab81c gho16C7e42F292c6912E7710c838347Ae178b4a 123e4567-e89b-42d3-a456-426614174000"
    " SplxlOBeZQQYbYS6WxSbIA n-0S6_WzA2MjQ9x 4/0AY0e-g7XbQ3xk_cd".split(),
)
def test_random_values_look_like_tokens(value: str) -> None:
    assert looks_like_token(value)


@pytest.mark.parametrize(
    "value", "404 4a0Ab8 running access_denied E1234567 eu-central-1 1.2.3-beta4 2026-11-15".split()
)
def test_numbers_and_words_look_like_none(value: str) -> None:
    assert not looks_like_token(value)
