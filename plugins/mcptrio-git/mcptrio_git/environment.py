"""The environment and configuration of each git process.

``RepositoryWork`` uses it. By default, git must not run other programs, ask questions or use the network. The ``Kind``
of a command allows more.

Source: git(1), "Environment Variables"; git-config(1); githooks(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum

from .config import Config

__all__ = ["Kind", "environment"]


class Kind(Enum):
    """The rights of a command."""

    READ = "read"
    """Change nothing, and run no program except git."""
    WRITE = "write"
    """Change the repository, and run its hooks if ``Config.hooks`` allows; if the network is allowed, also fetch
    missing objects of a partial clone."""
    NETWORK = "network"
    """Contact remotes, with the rights of ``WRITE``."""


_PASSED_VARIABLES = frozenset(
    {
        # These name the author, and how the operator reaches remotes and has installed git. Other variables GIT_* are
        # dropped, because they may point to another repository or name a program.
        *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
        *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_EXEC_PATH"),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    }
)
_DROPPED_VARIABLES = frozenset({"LANGUAGE", "LC_ALL", "SSH_ASKPASS", "PAGER", "LESS", "EDITOR", "VISUAL"})

_VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # if it is empty, git runs no program to ask for a password, not even SSH_ASKPASS
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
}

_SETTINGS = {
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.askPass": "",
    "color.ui": "false",
    "advice.detachedHead": "false",
    "log.showSignature": "false",
    "diff.noprefix": "false",
    "diff.mnemonicPrefix": "false",
    "diff.relative": "false",
    "diff.submodule": "short",
    "i18n.logOutputEncoding": "UTF-8",
    # Housekeeping would continue in the background after the call.
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}


_DEFAULT_PROGRAMS = {
    "core.sshcommand": "ssh",
    "core.alternaterefscommand": "true",
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
}
"""Programs that git runs by default."""


def environment(
    config: Config, kind: Kind, *, root: str, is_bare: bool, programs: Iterable[str] = ()
) -> Mapping[str, str]:
    """Return the whole environment of a git process.

    Args:
        root: The working directory; git does not look for a repository above it.
        is_bare: True if ``root`` is a bare repository. Otherwise git must not use bare repositories, because files in a
            work tree may look like one whose configuration runs programs.
        programs: Keys of the repository's configuration that name programs, such as filters and merge drivers. They are
            disabled unless the command changes something and ``Config.hooks`` is on.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED_VARIABLES and (not name.startswith("GIT_") or name in _PASSED_VARIABLES)
    }
    variables.update(_VARIABLES)
    variables["GIT_CEILING_DIRECTORIES"] = os.path.dirname(root)
    # An empty list allows no protocol. In a partial clone, a read then cannot fetch missing objects; a checkout can, if
    # the network is allowed.
    uses_network = kind is Kind.NETWORK or (kind is Kind.WRITE and config.allow_network)
    variables["GIT_ALLOW_PROTOCOL"] = ":".join(config.protocols) if uses_network else ""
    if not uses_network:
        variables["GIT_NO_LAZY_FETCH"] = "1"
    settings = {**_SETTINGS, "safe.bareRepository": "all" if is_bare else "explicit"}
    if kind is Kind.READ:
        variables["GIT_OPTIONAL_LOCKS"] = "0"
    if kind is Kind.READ or not config.hooks:
        settings["core.hooksPath"] = os.devnull
        for key in programs:
            settings.update(_disabling_settings(key))
            if key == "core.gitproxy":  # git uses the first value of this setting, but the environment overrides it
                variables["GIT_PROXY_COMMAND"] = ""
    # The option -c could not set a key that contains "=".
    variables["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _disabling_settings(key: str) -> Mapping[str, str]:
    """Return settings that disable a program, or replace it with git's default."""
    section, _, rest = key.partition(".")
    if section in ("core", "gpg"):
        return {key: _DEFAULT_PROGRAMS.get(key, "false")}
    if section == "credential":
        return {"credential.helper": ""}  # an empty value clears all earlier helpers, for every URL
    name = rest.rpartition(".")[0]
    if section == "merge":
        return {key: "false"}  # the command fails, which leaves a conflict; an empty command would succeed
    return {key: "", f"filter.{name}.required": "false"}
