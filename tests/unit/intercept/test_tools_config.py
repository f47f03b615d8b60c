"""Tools for the configuration: what is shown, what is stored when the shown is written back."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.faults import InvalidInput
from pilothouse.core.redact import Redactor
from pilothouse.core.secret_shapes import MASK
from pilothouse.intercept.config_tools import (
    get_config,
    list_backups,
    restore_config,
    unmasked,
    update_config,
)
from pilothouse.intercept.model import BadConfig
from tests.support.fake_interceptor import CATEGORIES, FakeInterceptor, call

pytestmark = pytest.mark.anyio

RULE = {
    "id": 1,
    "enabled": True,
    "server_id": -1,
    "direction": "CLIENT_REQUEST",
    "pattern": "Authorization: .*",
    "method": "REGEX",
    "replaced": "Authorization: Bearer hunter2222",
}


def configured() -> FakeInterceptor:
    listener = {"id": 1, "enabled": True, "port": 8080, "type": "HTTP_PROXY", "server_id": -1}
    return FakeInterceptor(
        stored={
            "listenPorts": [listener],
            "servers": [],
            "modifications": [RULE],
            "sslPassThroughs": [],
        }
    )


async def test_all_four_categories_are_shown() -> None:
    shown = await call(get_config, configured())
    assert tuple(shown) == CATEGORIES


async def test_only_the_categories_that_were_asked_for_are_shown() -> None:
    shown = await call(get_config, configured(), categories=["servers", "listenPorts"])
    assert sorted(shown) == ["listenPorts", "servers"]


async def test_no_category_is_all_of_them() -> None:
    assert len(await call(get_config, configured(), categories=[])) == 4


async def test_an_unknown_category_is_refused_with_the_four() -> None:
    with pytest.raises(InvalidInput) as refused:
        await call(get_config, configured(), categories=["filters"])
    assert refused.value.number == -32602
    assert refused.value.details["expected"] == f"a list, each one of {', '.join(CATEGORIES)}"


async def test_listeners_that_do_not_run_say_why_when_asked() -> None:
    shown = await call(get_config, configured(), listeners=True)
    assert shown["listeners"][0]["reason"] == "taken"


async def test_a_rule_that_writes_a_secret_is_shown_masked_and_survives_being_written_back() -> (
    None
):
    fake = configured()
    shown = await call(get_config, fake)
    assert shown["modifications"][0]["replaced"] == f"Authorization: Bearer {MASK}"
    shown["modifications"][0]["enabled"] = False
    await call(update_config, fake, config_json=shown)
    assert fake.stored["modifications"] == [{**RULE, "enabled": False}]


@pytest.mark.parametrize(
    "config",
    [
        {"modifications": "none"},
        {"modifications": [1, None, {}]},
        {"modifications": [{"id": 9, "replaced": f"Authorization: Bearer {MASK}"}]},
        {"other": [{"id": 1}]},
    ],
    ids=repr,
)
def test_what_does_not_stem_from_the_shown_is_left_alone(config: dict[str, Any]) -> None:
    assert unmasked(config, {"modifications": [RULE]}, Redactor()) == config


@pytest.mark.parametrize("backup", [True, False])
async def test_an_update_says_whether_there_is_a_backup(backup: bool) -> None:
    fake = configured()
    shown = await call(update_config, fake, config_json=fake.stored, backup=backup)
    assert shown["success"] is True
    assert shown["config_updated"] is True
    assert shown["backup_created"] is backup
    assert ("backup_info" in shown) is backup


async def test_a_backup_is_made_unless_it_is_declined() -> None:
    fake = configured()
    await call(update_config, fake, config_json=fake.stored)
    ((_, (_, backup)),) = fake.asked
    assert backup is True


async def test_a_missing_category_is_a_config_error() -> None:
    with pytest.raises(BadConfig) as refused:
        await call(update_config, configured(), config_json={"servers": []})
    assert refused.value.number == -32004


@pytest.mark.parametrize("config", [None, [], "{}", 1])
async def test_a_configuration_that_is_no_object_is_refused(config: object) -> None:
    fake = configured()
    with pytest.raises(InvalidInput):
        await call(update_config, fake, config_json=config)
    assert fake.asked == []


async def test_a_configuration_that_cannot_be_read_can_be_replaced() -> None:
    fake = configured()
    sound = fake.stored

    async def unreadable() -> dict[str, Any]:
        raise BadConfig("not JSON")

    fake.config = unreadable  # type: ignore[method-assign]
    shown = await call(update_config, fake, config_json=sound)
    assert shown["config_updated"] is True


async def test_a_backup_is_restored() -> None:
    shown = await call(restore_config, configured(), backup_id="backup_20250804_120000")
    assert shown == {
        "success": True,
        "backup_id_restored": "backup_20250804_120000",
        "config_restored": True,
    }


async def test_an_unknown_backup_is_a_config_error() -> None:
    with pytest.raises(BadConfig) as refused:
        await call(restore_config, configured(), backup_id="../../etc/passwd")
    assert refused.value.number == -32004


async def test_backups_are_listed() -> None:
    shown = await call(list_backups, configured())
    assert shown["backups"][0]["backup_id"] == "backup_20250804_120000"
