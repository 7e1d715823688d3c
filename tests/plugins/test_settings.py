"""The settings of a plugin: where they are read from, and the errors of invalid ones."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, frozen, validators

from mcptrio import ConfigError, PluginSetup, Secret, Server, hookimpl, tool
from mcptrio.errors import PluginError
from mcptrio.plugins.settings import PluginTables
from mcptrio.serve.config import load_config
from mcptrio.serving import ServerSettings

__all__: list[str] = []


@frozen(kw_only=True)
class Remote:
    url: str = ""
    token: Secret | None = None

    def __attrs_post_init__(self) -> None:
        if self.token is not None and not self.token.reveal():
            raise ValueError("token: expected at least 1 character")


@frozen(kw_only=True)
class Config:
    count: int = field(default=3, validator=validators.ge(1))
    ratio: float = 0.5
    loud: bool = False
    title: str | None = None
    folder: Path | None = None
    folders: tuple[Path, ...] = ()
    words: tuple[str, ...] = ()
    mode: Literal["fast", "careful"] = "fast"
    token: Secret | None = None
    remotes: Mapping[str, Remote] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.count == 13:
            raise ValueError("expected a lucky count, got 13")
        if self.count == 14:
            raise ValueError("count: expected another one, got 14")


class Plugin:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl
    def setup(self, server: PluginSetup, config: Config) -> None:
        self.seen.append(config)

    @hookimpl
    def lifespan(self, config: Config) -> AbstractAsyncContextManager[None]:
        self.seen.append(config)
        return nullcontext()


def configured(table: dict[str, Any], **environ: str) -> Config:
    plugin = Plugin()
    Server(
        plugins=[plugin],
        config=PluginTables(tables={"Plugin": table}, environ=environ),
        settings=ServerSettings(strict=True),
    )
    [seen] = plugin.seen
    return seen  # type: ignore[no-any-return]


def test_missing_settings_have_their_defaults() -> None:
    assert configured({}) == Config()


def test_settings_are_converted_to_the_types_of_the_class() -> None:
    table = {
        "count": 7,
        "ratio": 2,
        "loud": True,
        "title": "é",
        "folder": "/srv",
        "folders": ["/a", "~/b"],
        "words": ["x"],
        "mode": "careful",
        "token": "hush",
        "remotes": {"one": {"url": "https://example.com", "token": "hush too"}},
    }
    assert configured(table) == Config(
        count=7,
        ratio=2.0,
        loud=True,
        title="é",
        folder=Path("/srv"),
        folders=(Path("/a"), Path.home() / "b"),
        words=("x",),
        mode="careful",
        token=Secret("hush"),
        remotes={"one": Remote(url="https://example.com", token=Secret("hush too"))},
    )


async def test_every_hook_gets_the_same_settings() -> None:
    plugin = Plugin()
    async with Server(plugins=[plugin], config={"Plugin": {"count": 2}}).open():
        assert plugin.seen == [Config(count=2)] * 2


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("MCPTRIO_PLUGIN_COUNT", "5", "count", 5),
        ("MCPTRIO_PLUGIN_RATIO", "0.25", "ratio", 0.25),
        ("MCPTRIO_PLUGIN_LOUD", "True", "loud", True),
        ("MCPTRIO_PLUGIN_TITLE", "5", "title", "5"),
        ("MCPTRIO_PLUGIN_FOLDERS", "/a:/b", "folders", (Path("/a"), Path("/b"))),
        ("MCPTRIO_PLUGIN_WORDS", "x, y", "words", ("x", "y")),
        ("MCPTRIO_PLUGIN_MODE", "careful", "mode", "careful"),
        ("MCPTRIO_PLUGIN_TOKEN", "hush", "token", Secret("hush")),
        ("MCPTRIO_PLUGIN_REMOTES", '{"one": {"url": "u"}}', "remotes", {"one": Remote(url="u")}),
    ],
)
def test_environment_overrides_the_table(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(configured({"count": 9}, **{variable: text}), name) == value


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"count": "7"}, "plugins.Plugin.count: expected an integer, got '7'"),
        ({"count": True}, "plugins.Plugin.count: expected an integer, got true"),
        ({"title": 1}, "plugins.Plugin.title: expected a string or nothing, got 1"),
        ({"words": "x"}, "plugins.Plugin.words: expected a list, got 'x'"),
        ({"words": ["x", 2]}, "plugins.Plugin.words: expected a string, got a list"),
        ({"mode": "slow"}, "plugins.Plugin.mode: expected one of fast, careful, got 'slow'"),
        ({"folder": ""}, "plugins.Plugin.folder: expected a path, got ''"),
        ({"counts": 7}, "plugins.Plugin.counts: there is no setting `counts`; did you mean `count`?"),
        (
            {"remotes": {"one": {"ulr": ""}}},
            "plugins.Plugin.remotes.one.ulr: there is no setting `ulr`; did you mean `url`?",
        ),
        ({"remotes": {"one": {"url": 3}}}, "plugins.Plugin.remotes.one.url: expected a string, got 3"),
        (
            {"remotes": {"one": {"token": ""}}},
            "plugins.Plugin.remotes.one: token: expected at least 1 character",
        ),
        ({"token": 12345}, "plugins.Plugin.token: expected a string, got a value that is not shown"),
        ({"count": 0}, "plugins.Plugin.count: expected a value >= 1, got 0"),
        ({"count": 13}, "plugins.Plugin: expected a lucky count, got 13"),
        ({"count": 14}, "plugins.Plugin.count: expected another one, got 14"),
    ],
)
def test_error_names_the_invalid_setting(table: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError) as raised:
        configured(table)
    assert str(raised.value).endswith(message)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("MCPTRIO_PLUGIN_COUNT", "many", "MCPTRIO_PLUGIN_COUNT: expected an integer, got 'many'"),
        ("MCPTRIO_PLUGIN_MODE", "slow", "MCPTRIO_PLUGIN_MODE: expected one of fast, careful, got 'slow'"),
        ("MCPTRIO_PLUGIN_REMOTES", "{", "MCPTRIO_PLUGIN_REMOTES: expected JSON"),
        (
            "MCPTRIO_PLUGIN_REMOTES",
            '{"home": {"ulr": "x"}}',
            "MCPTRIO_PLUGIN_REMOTES: there is no setting `ulr`; did you mean `url`?",
        ),
    ],
)
def test_error_names_the_invalid_environment_variable(variable: str, text: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        configured({}, **{variable: text})


def test_references_in_settings_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    plugin = Plugin()
    table = {
        "title": {"$env": "WHO"},
        "token": {"$file": "token"},
        "words": [{"$env": "WHO"}, {"$env": "NOBODY", "default": "x"}],
        "remotes": {"one": {"token": {"$file": "none", "default": "y"}}},
    }
    tables = PluginTables(tables={"Plugin": table}, folder=tmp_path, environ={"WHO": "me"})
    Server(plugins=[plugin], config=tables, settings=ServerSettings(strict=True))
    assert plugin.seen[0] == Config(
        title="me",
        token=Secret("from a file"),
        words=("me", "x"),
        remotes={"one": Remote(token=Secret("y"))},
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"$env": "NOBODY"}, "expected the environment variable NOBODY, which is not set"),
        ({"$file": "none"}, "none: cannot be read: No such file or directory"),
        ({"$env": "A", "else": 1}, 'expected { "$env" = "…" }, with or without a default'),
        ({"$file": "large"}, "large: expected at most 65536 bytes"),
        ({"$file": "binary"}, "binary: expected UTF-8"),
    ],
)
def test_error_names_the_unresolved_reference(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    tables = PluginTables(tables={"Plugin": {"title": value}}, folder=tmp_path, environ={})
    with pytest.raises(ConfigError) as raised:
        tables.of("Plugin", Config)
    assert message in str(raised.value)
    assert str(raised.value).startswith("plugins.Plugin.title: ")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("loud", "plugins.Plugin.loud: expected true or false, got a value that is not shown"),
        ("mode", "plugins.Plugin.mode: expected one of fast, careful, got a value that is not shown"),
        ("remotes", "plugins.Plugin.remotes: expected a table, got a value that is not shown"),
        ("code", "plugins.Plugin.code: invalid value, which is not shown"),
    ],
)
def test_error_does_not_show_the_referenced_value(key: str, message: str) -> None:
    @frozen(kw_only=True)
    class Guarded(Config):
        code: str = field(default="", validator=validators.max_len(3))

    tables = PluginTables(tables={"Plugin": {key: {"$env": "HUSH"}}}, environ={"HUSH": "hush-hush"})
    with pytest.raises(ConfigError) as raised:
        tables.of("Plugin", Guarded)
    assert str(raised.value) == message
    assert "hush-hush" not in "".join(traceback.format_exception(raised.value))


def test_setting_of_a_private_field_is_named_without_underscore() -> None:
    @frozen
    class Private:
        _level: int = 1

    assert PluginTables(tables={"x": {"level": 2}}, environ={}).of("x", Private) == Private(2)
    assert PluginTables(environ={"MCPTRIO_X_LEVEL": "3"}).of("x", Private) == Private(3)


def test_invalid_default_is_called_the_default() -> None:
    @frozen
    class Negative:
        depth: int = field(default=-3, validator=validators.gt(0))

    with pytest.raises(ConfigError, match=r"^plugins\.x\.depth: expected a value > 0, got -3, which is the default$"):
        PluginTables(environ={}).of("x", Negative)


def test_error_names_file_and_line_of_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "mcptrio.toml"
    path.write_text('[server]\nname = "x"\n\n[plugins.Plugin]\nloud = true\ncount = "seven"\n')
    read = load_config(path)
    tables = PluginTables(tables=read.plugins, folder=tmp_path, error=read.error, environ={})
    server = Server(plugins=[Plugin()], config=tables)
    assert server.plugins.plugins["Plugin"].failure == (
        f"{path}:6: plugins.Plugin.count: expected an integer, got 'seven'"
    )


def test_invalid_settings_affect_their_plugin_only() -> None:
    class Other:
        @tool
        def works(self) -> str:
            return "yes"

    server = Server(plugins=[Plugin(), Other()], config={"Plugin": {"count": "7"}})
    assert [each.state for each in server.status.plugins] == ["quarantined", "loaded"]


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (dict, "expected a class of attrs"),
        (frozen(type("NoDefault", (), {"__annotations__": {"x": int}})), "expected a default for NoDefault.x"),
        (
            frozen(type("Taken", (), {"__annotations__": {"timeout": float}, "timeout": 1.0})),
            "expected a name that is not a setting of the server, got Taken.timeout",
        ),
    ],
)
def test_unusable_settings_class_is_refused(cls: type[Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        PluginTables().of("x", cls)


def test_secret_is_not_shown_by_repr() -> None:
    secret = Secret("hush")
    assert secret.reveal() == "hush"
    assert "hush" not in f"{secret} {secret!r} {Config(token=secret)}"
    assert secret == Secret("hush") != Secret("loud")
    assert hash(secret) == hash(Secret("hush"))
    assert not Secret("")


def test_environment_sets_a_list_of_tables() -> None:
    @frozen
    class Rules:
        allow: tuple[Remote, ...] = ()

    def read(text: str) -> Rules:
        found: Rules = PluginTables(environ={"MCPTRIO_X_ALLOW": text}).of("x", Rules)
        return found

    assert read('[{"url": "https://a.example"}, {}]') == Rules((Remote(url="https://a.example"), Remote()))
    with pytest.raises(ConfigError, match=r"^MCPTRIO_X_ALLOW: expected a list, got a table"):
        read("{}")


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("MCPTRIO_LIBARY_COUNT", ["no plugin has such a setting; did you mean `MCPTRIO_LIBRARY_COUNT`?"]),
        ("MCPTRIO_LIBRARIAN_COUNT", []),
        ("MCPTRIO_LIBARY_OTHER", []),
        ("MCPTRIO_HTTP_COUNT", []),
        ("MCPTRIO_LIBRARY_COUNT", []),
        ("MCPTRIO_LIBRARY_CUONT", ["the plugin has no such setting; did you mean `MCPTRIO_LIBRARY_COUNT`?"]),
    ],
)
def test_variable_of_a_misspelled_plugin_is_reported(variable: str, found: list[str]) -> None:
    tables = PluginTables(environ={variable: "1"})
    others = {"library", "librarian"}

    assert [*tables.unknown_variables("library", Config, lambda: others)] == [f"{variable}: {each}" for each in found]
