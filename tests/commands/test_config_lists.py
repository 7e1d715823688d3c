"""A name in a list of the configuration: adding and removing it changes no other character."""

from __future__ import annotations

import tomllib

import pytest

from mcptrio.cli.plugins.config_lists import UneditableList, add_name, remove_name

__all__: list[str] = []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '[server]\ndisable = ["git"]\n'),
        ("# mine\n", '# mine\n\n[server]\ndisable = ["git"]\n'),
        ("[http]\nport = 1", '[http]\nport = 1\n\n[server]\ndisable = ["git"]\n'),
        ("[server]\n[http]\nport = 1\n", '[server]\ndisable = ["git"]\n[http]\nport = 1\n'),
        (
            "[server]  # ours\nname = 'x'  # of it\n\n# next\n[server.timeouts]\nidle = 1\n",
            "[server]  # ours\nname = 'x'  # of it\ndisable = [\"git\"]\n\n# next\n[server.timeouts]\nidle = 1\n",
        ),
        ("[server.timeouts]\nidle = 1\n", '[server.timeouts]\nidle = 1\n\n[server]\ndisable = ["git"]\n'),
        ("server.name = 'x'\n[http]\n", "server.name = 'x'\nserver.disable = [\"git\"]\n[http]\n"),
        ('[server]\ndisable = ["fs"] # why\n', '[server]\ndisable = ["fs", "git"] # why\n'),
        ("[server]\ndisable=[]\n", '[server]\ndisable=["git"]\n'),
        ("[server]\r\ndisable = ['fs',]\r\nname = 'x'\r\n", "[server]\r\ndisable = ['fs', \"git\",]\r\nname = 'x'\r\n"),
        ('[server]\nname = """\ndisable = []\n"""\n', '[server]\nname = """\ndisable = []\n"""\ndisable = ["git"]\n'),
        ("['server']\n\"disable\" = [\n  'a', # ]\n]\n", "['server']\n\"disable\" = [\n  'a', \"git\", # ]\n]\n"),
    ],
)
def test_name_is_added_to_a_list(text: str, expected: str) -> None:
    edited = add_name(text, "disable", "git")

    assert edited == expected
    assert tomllib.loads(edited)["server"]["disable"][-1] == "git"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[server]\ndisable = ["git"] # why\n', "[server]\ndisable = [] # why\n"),
        ('[server]\ndisable = ["git", "fs"]\n', '[server]\ndisable = ["fs"]\n'),
        ('[server]\ndisable = ["fs", "git"]\n', '[server]\ndisable = ["fs"]\n'),
        ('[server]\ndisable = ["fs", "git", "time"]\n', '[server]\ndisable = ["fs", "time"]\n'),
        (
            '[server]\ndisable = [\n  "fs", # a\n  "git",\n  "time",\n]\n[http]\n',
            '[server]\ndisable = [\n  "fs", # a\n  "time",\n]\n[http]\n',
        ),
        ("[server]\ndisable = [\n  'fs',\n  'git'\n]\n", "[server]\ndisable = [\n  'fs',\n]\n"),
        ('server.disable = ["g\\u0069t"]\n', "server.disable = []\n"),
    ],
)
def test_name_is_removed_from_a_list(text: str, expected: str) -> None:
    assert remove_name(text, "disable", "git") == expected


def test_adding_and_removing_a_name_restores_the_text() -> None:
    text = "# a\n[server]\nenable = ['x'] # b\n\n[plugins.x]\ny = '''\n[server]\n'''\n"

    assert remove_name(add_name(text, "enable", "git"), "enable", "git") == text


@pytest.mark.parametrize("text", ['server = { disable = ["fs"] }\n', "[server]\ndisable = 'fs'\n"])
def test_inline_list_is_refused_for_editing(text: str) -> None:
    with pytest.raises(UneditableList):
        add_name(text, "disable", "git")
