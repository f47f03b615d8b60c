"""Tools for the proxy's configuration and its backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pilothouse.core.declare.model import SnakeResult
from pilothouse.core.declare.tool import Example, tool
from pilothouse.intercept.model import FAULTS, BackupNotFound, BadConfig, ConfigMisfit
from pilothouse.intercept.ports import Interceptor
from pilothouse.intercept.tools.shared import INTERCEPT, WRITES, InterceptArgs, ProxyAnswer

if TYPE_CHECKING:
    from pilothouse.core.secrets.redactor import Redactor

type Category = Literal["listenPorts", "servers", "modifications", "sslPassThroughs"]


class GetConfig(InterceptArgs):
    categories: list[Category] | None = Field(default=None, description="Default: all")
    listeners: bool = Field(default=False, description="Show which ports are open, too")


class ShownConfig(SnakeResult):
    listen_ports: list[dict[str, Any]] | None = Field(
        default=None, alias="listenPorts", description="Where the proxy listens"
    )
    servers: list[dict[str, Any]] | None = Field(default=None, description="Known servers")
    modifications: list[dict[str, Any]] | None = Field(
        default=None, description="Rules that change traffic"
    )
    ssl_pass_throughs: list[dict[str, Any]] | None = Field(
        default=None, alias="sslPassThroughs", description="Servers whose TLS is left alone"
    )
    listeners: list[dict[str, Any]] | None = Field(
        default=None, description="Each port with running and, where it is not, reason"
    )


@tool(
    INTERCEPT,
    effect="read",
    profile="default",
    raises=(*FAULTS, BadConfig),
    examples=(
        Example(title="All of it"),
        Example(title="Two parts", args={"categories": ["listenPorts", "servers"]}),
    ),
)
async def get_config(args: GetConfig, interceptor: Interceptor) -> ShownConfig:
    """Show the proxy's configuration."""
    await interceptor.admit(args.token)
    config = masked(await interceptor.config(), interceptor.redactor)
    wanted = {name: items for name, items in config.items() if name in (args.categories or config)}
    if args.listeners:
        wanted["listeners"] = interceptor.redactor.texts(await interceptor.listeners())
    return ShownConfig.model_validate(wanted)


class UpdateConfig(InterceptArgs):
    config_json: dict[str, Any] = Field(
        description="All four categories, as get_config shows them; items left out are deleted"
    )
    backup: bool = Field(default=True, description="Back up first")


class ConfigUpdated(ProxyAnswer):
    success: bool = Field(description="Always true")
    backup_created: bool = Field(description="Whether there is a backup")
    backup_info: dict[str, Any] | None = Field(
        default=None, description="backup_id for restore_config, backup_path, timestamp"
    )
    config_updated: bool = Field(description="Always true")
    listeners: list[dict[str, Any]] = Field(
        default_factory=list, description="Each port with running and, where it is not, reason"
    )
    warnings: list[str] = Field(default_factory=list, description="What is not acted on")


@tool(
    INTERCEPT,
    effect="destroy",
    idempotent=True,
    profile="default",
    raises=(*WRITES, BadConfig, ConfigMisfit),
    examples=(
        Example(
            title="Listen on 8080",
            args={
                "config_json": {
                    "listenPorts": [{"id": 1, "enabled": True, "port": 8080, "type": "HTTP_PROXY"}],
                    "servers": [],
                    "modifications": [],
                    "sslPassThroughs": [],
                }
            },
        ),
    ),
)
async def update_config(args: UpdateConfig, interceptor: Interceptor) -> ConfigUpdated:
    """Replace the proxy's configuration as a whole."""
    await interceptor.admit(args.token, writes=True)
    try:
        kept = await interceptor.config()
    except BadConfig:
        kept = {}  # a configuration that cannot be read may still be replaced
    config = unmasked(args.config_json, kept, interceptor.redactor)
    done = await interceptor.update_config(config, backup=args.backup)
    return ConfigUpdated.model_validate(interceptor.redactor.texts(done))


class RestoreConfig(InterceptArgs):
    backup_id: str = Field(description="Of list_backups")


class ConfigRestored(ProxyAnswer):
    success: bool = Field(description="Always true")
    backup_id_restored: str = Field(description="The backup")
    config_restored: bool = Field(description="Always true")


@tool(
    INTERCEPT,
    effect="destroy",
    idempotent=True,
    profile="default",
    raises=(*WRITES, BadConfig, ConfigMisfit, BackupNotFound),
    examples=(Example(title="Go back", args={"backup_id": "backup_20250115_103000"}),),
)
async def restore_config(args: RestoreConfig, interceptor: Interceptor) -> ConfigRestored:
    """Replace the proxy's configuration by a backup; what it replaces is backed up, too."""
    await interceptor.admit(args.token, writes=True)
    if all(one["backup_id"] != args.backup_id for one in await interceptor.backups()):
        raise BackupNotFound(
            "there is no backup of that id",
            hint="list_backups has them; an id is like backup_20250115_103000",
            field="backup_id",
            expected="an id that list_backups shows",
        )
    done = await interceptor.restore_config(args.backup_id)
    return ConfigRestored.model_validate(interceptor.redactor.texts(done))


class ListBackups(InterceptArgs):
    pass


class Backups(SnakeResult):
    backups: list[dict[str, Any]] = Field(description="Newest first: backup_id, timestamp, bytes")


@tool(
    INTERCEPT,
    effect="read",
    raises=FAULTS,
    examples=(Example(title="See them"),),
    profile="default",
)
async def list_backups(args: ListBackups, interceptor: Interceptor) -> Backups:
    """List the backups of the proxy's configuration."""
    await interceptor.admit(args.token)
    return Backups(backups=await interceptor.backups())


def masked(
    config: dict[str, list[dict[str, Any]]], redactor: Redactor
) -> dict[str, list[dict[str, Any]]]:
    """Return the configuration as it is shown: a rule may write a password."""
    shown: dict[str, list[dict[str, Any]]] = redactor.texts(config)
    return shown


def unmasked(
    config: dict[str, Any], kept: dict[str, list[dict[str, Any]]], redactor: Redactor
) -> dict[str, Any]:
    """Return the configuration; values that came back as they were shown are as they are kept.

    Without this, reading the configuration and writing it back would store the masks.
    """

    def item(category: str, given: object) -> object:
        if not isinstance(given, dict):
            return given
        old = next((one for one in kept.get(category, ()) if one["id"] == given.get("id")), {})
        shown: dict[str, Any] = redactor.texts(old)
        return {
            name: old[name] if isinstance(value, str) and value == shown.get(name) else value
            for name, value in given.items()
        }

    return {
        category: [item(category, one) for one in items] if isinstance(items, list) else items
        for category, items in config.items()
    }


TOOLS = (get_config, update_config, restore_config, list_backups)
