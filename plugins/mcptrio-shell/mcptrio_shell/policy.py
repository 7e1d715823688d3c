"""Decides whether a command may be run, and with which program, folder and environment.

The tools call it before they start a command, in a worker thread because it resolves paths. A command is refused unless
a rule allows its program and each of its arguments.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from mcptrio import ToolError

from .config import Config, Rule, is_launcher
from .folders import Folders
from .patterns import ArgumentPattern

__all__ = ["CommandPolicy", "PermittedCommand"]

_MAX_QUOTED_CHARS = 200
_MAX_SHOWN_RULES = 20


@frozen(kw_only=True)
class PermittedCommand:
    """A command that may be run."""

    argv: tuple[str, ...]
    executable: str
    """Absolute path of the program as it was found and checked. Links are not resolved: a program may depend on the
    name under which it is called."""
    cwd: str
    """Working folder, resolved."""
    environment: Mapping[str, str]

    @property
    def shown(self) -> str:
        """The command line for users and models, shortened if it is long."""
        text = shlex.join(self.argv)
        return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[: _MAX_QUOTED_CHARS - 1]}…"


@frozen
class CommandPolicy:
    """The rules of one configuration."""

    config: Config
    _patterns: Mapping[int, tuple[tuple[ArgumentPattern, ...], tuple[ArgumentPattern, ...]]] = field(
        init=False, repr=False
    )
    """The patterns of each rule, by its index."""

    def __attrs_post_init__(self) -> None:
        patterns = {number: rule.patterns() for number, rule in enumerate(self.config.allow)}
        object.__setattr__(self, "_patterns", patterns)

    @property
    def folders(self) -> Folders:
        """The folders in which commands may run."""
        return Folders(self.config.folders)

    def decide(self, argv: Sequence[str], cwd: str | None, environment: Mapping[str, str]) -> PermittedCommand:
        """Return the command if it may be run. Blocks on the file system.

        Args:
            argv: The program and its arguments.
            cwd: Working folder, absolute or relative to the first folder; ``None`` for the first folder.
            environment: Variables that the call sets.

        Raises:
            ToolError: The command is not allowed; the message names the allowed ones.
        """
        if not self.config.allow:
            raise ToolError(
                "no command is allowed; the operator must list commands in mcptrio.toml, for example\n"
                '[plugins.shell]\nfolders = ["/absolute/path"]\n'
                '[[plugins.shell.allow]]\nargv = ["git", "log"]\nrest = ["--oneline", "{path}"]'
            )
        # Checked first, so that patterns and paths are matched against bounded text only.
        self._check_size(argv, environment)
        real = self.folders.resolve(cwd or ".")
        rules = [rule for number, rule in enumerate(self.config.allow) if self._matches(number, argv, real)]
        if not rules:
            raise ToolError(self._refusal(argv))
        # Several rules may match, and only one of them may allow a shell.
        reason = ""
        for rule in rules:
            program_path, reason = self._find_program(rule)
            if program_path is not None:
                return PermittedCommand(
                    argv=tuple(argv),
                    executable=program_path,
                    cwd=real,
                    environment=self._environment(real, environment),
                )
        raise ToolError(f"{shlex.quote(argv[0])} cannot be run: {reason}")

    def _check_size(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        config = self.config
        if not 1 <= len(argv) <= config.max_arguments:
            raise ToolError(f"argv: expected 1 to {config.max_arguments} arguments, got {len(argv)}")
        for texts, name in ((argv, "argv"), ((*environment, *environment.values()), "env")):
            try:
                size = sum(len(text.encode()) + 1 for text in texts)
            except UnicodeEncodeError:
                raise ToolError(f"{name}: expected Unicode text, got a lone surrogate") from None
            if size > config.max_argument_bytes:
                raise ToolError(f"{name}: expected at most {config.max_argument_bytes} bytes, got {size}")
            if any("\0" in text for text in texts):
                raise ToolError(f"{name}: expected text without NUL")
        for variable in environment:
            if variable not in config.client_environment:
                allowed = ", ".join(config.client_environment) or "none"
                raise ToolError(f"env: expected variables that may be set ({allowed}), got {variable!r}")

    def _matches(self, number: int, argv: Sequence[str], cwd: str) -> bool:
        """Return whether a rule matches the arguments. The program must be written exactly as in the rule."""
        first, others = self._patterns[number]
        fixed = 1 + len(first)
        if argv[0] != self.config.allow[number].program or len(argv) < fixed:
            return False

        def is_inside(path: str) -> bool:
            return self.folders.contains_unresolved(path, cwd)

        return all(
            pattern.matches(argument, is_inside) for pattern, argument in zip(first, argv[1:fixed], strict=True)
        ) and all(any(pattern.matches(argument, is_inside) for pattern in others) for argument in argv[fixed:])

    def _refusal(self, argv: Sequence[str]) -> str:
        rules = self.config.allow
        rule_lines = "\n".join(rule.shown for rule in rules[:_MAX_SHOWN_RULES])
        more = f"\nand {len(rules) - _MAX_SHOWN_RULES} more" if len(rules) > _MAX_SHOWN_RULES else ""
        command = shlex.join(argv)[:_MAX_QUOTED_CHARS]
        return f"not allowed: {command}\nThe command and each argument must fit one of these:\n{rule_lines}{more}"

    def _find_program(self, rule: Rule) -> tuple[str | None, str]:
        """Return the absolute path of the program, or ``None`` and the reason why it is not run."""
        # The call's working folder and environment must not choose the program.
        if os.path.isabs(rule.program):
            candidates = [rule.program]
        else:
            candidates = [str(directory / rule.program) for directory in self.config.path]
        program_path = next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)
        if program_path is None:
            return None, "no such program was found"
        real = os.path.realpath(program_path)
        if not rule.shell and is_launcher(os.path.basename(real)):
            return None, f"it is a link to {os.path.basename(real)}, and its rule allows no shell"
        # Both folders matter, that of the link and that of its target: a user who can write to either decides which
        # program runs.
        folders = {os.path.realpath(os.path.dirname(program_path)), os.path.dirname(real)}
        if not rule.shell and any(self.folders.contains(folder) for folder in folders):
            return None, "it is in a folder in which commands may write, and its rule allows no shell"
        if any(_is_world_writable(path) for path in (real, *folders)):
            return None, "every user of the machine may replace it"
        return program_path, ""

    def _environment(self, cwd: str, requested: Mapping[str, str]) -> dict[str, str]:
        config = self.config
        inherited = {name: os.environ[name] for name in config.inherit if name in os.environ}
        path = os.pathsep.join(map(str, config.path))
        # A value that starts with "()" is an exported bash function, which is code.
        variables = {name: value for name, value in inherited.items() if not value.startswith("()")}
        # PWD comes last, because programs use it as the path of their working folder.
        return {"PATH": path, **variables, **config.environment, **requested, "PWD": cwd}


def _is_world_writable(path: str) -> bool:
    """Return whether every user may replace this file, or the files in this folder."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return True  # it was removed meanwhile
    # The sticky bit keeps other users from replacing files, as in /tmp.
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
