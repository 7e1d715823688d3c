"""Whether a command may be run, and as what.

Asked by the tools before anything is started, in a worker thread, since paths are resolved. The one rule: everything is
refused but what a rule lets through, argument by argument; the program is found by us, in folders that only the
operator chooses, and never by the call's text, working folder or environment.
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
    """The absolute path that was checked, as it was found: a program may ask under which name it was called."""
    cwd: str
    """Resolved."""
    environment: Mapping[str, str]

    @property
    def shown(self) -> str:
        """For people and models, cut where it is long."""
        text = shlex.join(self.argv)
        return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[: _MAX_QUOTED_CHARS - 1]}…"


@frozen
class CommandPolicy:
    """What the configuration lets through."""

    config: Config
    _patterns: Mapping[int, tuple[tuple[ArgumentPattern, ...], tuple[ArgumentPattern, ...]]] = field(
        init=False, repr=False
    )
    """Those of each rule, by its place."""

    def __attrs_post_init__(self) -> None:
        patterns = {number: rule.patterns() for number, rule in enumerate(self.config.allow)}
        object.__setattr__(self, "_patterns", patterns)

    @property
    def folders(self) -> Folders:
        """Where commands may run."""
        return Folders(self.config.folders)

    def decide(self, argv: Sequence[str], cwd: str | None, environment: Mapping[str, str]) -> PermittedCommand:
        """The command, if it may be run. Blocks: it looks at the file system.

        Args:
            argv: the program and its arguments.
            cwd: absolute or relative to the first folder; ``None`` is the first folder.
            environment: what the call sets.

        Raises:
            ToolError: it may not; what would be allowed instead.
        """
        if not self.config.allow:
            raise ToolError(
                "no command is allowed: the operator has to allow some in mcptrio.toml, for example\n"
                '[plugins.shell]\nfolders = ["/absolute/path"]\n'
                '[[plugins.shell.allow]]\nargv = ["git", "log"]\nrest = ["--oneline", "{path}"]'
            )
        self._check_size(argv, environment)
        real = self.folders.resolve(cwd or ".")
        rules = [rule for number, rule in enumerate(self.config.allow) if self._fits(number, argv, real)]
        if not rules:
            raise ToolError(self._refusal(argv))
        # More than one rule may fit, and only one of them may be allowed a shell.
        reason = ""
        for rule in rules:
            found, reason = self._find(rule)
            if found is not None:
                return PermittedCommand(
                    argv=tuple(argv), executable=found, cwd=real, environment=self._environment(real, environment)
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
                raise ToolError(f"{name}: expected Unicode text, got half a character") from None
            if size > config.max_argument_bytes:
                raise ToolError(f"{name}: expected at most {config.max_argument_bytes} bytes, got {size}")
            if any("\0" in text for text in texts):
                raise ToolError(f"{name}: expected no NUL, got one")
        for variable in environment:
            if variable not in config.client_environment:
                allowed = ", ".join(config.client_environment) or "none"
                raise ToolError(f"env: expected variables that may be set ({allowed}), got {variable!r}")

    def _fits(self, number: int, argv: Sequence[str], cwd: str) -> bool:
        """Whether a rule lets the arguments through. The program must be written exactly as in the rule."""
        first, others = self._patterns[number]
        fixed = 1 + len(first)
        if argv[0] != self.config.allow[number].program or len(argv) < fixed:
            return False

        def is_inside(path: str) -> bool:
            return self.folders.holds(path, cwd)

        return all(
            pattern.matches(argument, is_inside) for pattern, argument in zip(first, argv[1:fixed], strict=True)
        ) and all(any(pattern.matches(argument, is_inside) for pattern in others) for argument in argv[fixed:])

    def _refusal(self, argv: Sequence[str]) -> str:
        rules = self.config.allow
        shown = "\n".join(rule.shown for rule in rules[:_MAX_SHOWN_RULES])
        more = f"\nand {len(rules) - _MAX_SHOWN_RULES} more" if len(rules) > _MAX_SHOWN_RULES else ""
        command = shlex.join(argv)[:_MAX_QUOTED_CHARS]
        return f"not allowed: {command}\nThe command and each argument must fit one of these:\n{shown}{more}"

    def _find(self, rule: Rule) -> tuple[str | None, str]:
        """The program's absolute path, or why it is not run."""
        if os.path.isabs(rule.program):
            candidates = [rule.program]
        else:
            candidates = [str(directory / rule.program) for directory in self.config.path]
        found = next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)
        if found is None:
            return None, "no such program was found"
        real = os.path.realpath(found)
        if not rule.shell and is_launcher(os.path.basename(real)):
            return None, f"it is a link to {os.path.basename(real)}, and its rule allows no shell"
        # Both, the link and what it leads to: whoever can write to either decides what is run.
        folders = {os.path.realpath(os.path.dirname(found)), os.path.dirname(real)}
        if not rule.shell and any(self.folders.contains(folder) for folder in folders):
            return None, "it lies in a folder in which commands may write, and its rule allows no shell"
        if any(_is_anybodys(path) for path in (real, *folders)):
            return None, "everybody on the machine may replace it"
        return found, ""

    def _environment(self, cwd: str, asked: Mapping[str, str]) -> dict[str, str]:
        config = self.config
        inherited = {name: os.environ[name] for name in config.inherit if name in os.environ}
        path = os.pathsep.join(map(str, config.path))
        # A value that begins so is a function of bash's; those run code.
        kept = {name: value for name, value in inherited.items() if not value.startswith("()")}
        return {"PATH": path, **kept, **config.environment, **asked, "PWD": cwd}


def _is_anybodys(path: str) -> bool:
    """Whether anybody may put something else in the place of this file, or into this folder."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return True  # it has gone since it was found
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
