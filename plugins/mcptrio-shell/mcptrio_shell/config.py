"""The settings of the plugin: ``[plugins.shell]`` in mcptrio.toml.

mcptrio creates a Config from the table; embedding programs create it directly. Without rules no command may be run. A
rule for a program that runs the command in its arguments needs ``shell = true``.

Source: setrlimit(2) for the limits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, instance_of, le

from .patterns import ArgumentPattern

__all__ = ["LAUNCHERS", "Config", "Limits", "Rule", "is_launcher"]

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB

LAUNCHERS = re.compile(
    "ash|[gmn]?awk|bash|busybox|chroot|chrt|csh|dash|doas|env|fish|flock|ionice|ksh|ltrace|mksh|nice|nohup|nsenter|"
    "original-awk|parallel|pkexec|prlimit|pwsh|rbash|runuser|script|setarch|setpriv|setsid|sg|sh|ssh|"
    "start-stop-daemon|stdbuf|strace|su|sudo|systemd-run|taskset|tcsh|time|timeout|toybox|unshare|watch|xargs|zsh"
)
"""Programs that run the command in their arguments; a rule for one of them needs ``shell = true``."""

# With these variables a call could choose the program that runs, or code that is loaded into it.
_FORBIDDEN_VARIABLE = re.compile(r"PATH|LD_.*|DYLD_.*|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|PS4")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _count(least: int, most: int) -> Any:
    return and_(instance_of(int), ge(least), le(most))


def _seconds(least: float, most: float) -> Any:
    return and_(instance_of((int, float)), ge(least), le(most))


def is_launcher(name: str) -> bool:
    """Return whether a program of this name runs the command in its arguments."""
    # File systems of macOS ignore case.
    return LAUNCHERS.fullmatch(name.lower()) is not None


@frozen(kw_only=True)
class Rule:
    """A rule that allows commands."""

    argv: tuple[str, ...]
    """The program and the arguments that must come first. The program is a name, which is looked up in ``path``, or an
    absolute path; the arguments are patterns."""

    rest: tuple[str, ...] = ()
    """Patterns for further arguments; each one must match one of them. Without patterns no further arguments are
    allowed. ``*`` matches any text, ``?`` one character, ``{path}`` a path inside ``folders``, ``{integer}`` digits;
    ``re:`` starts a regular expression. An argument that starts with a dash is matched only by a pattern that does."""

    shell: bool = False
    """Allow a shell, another program that runs the command in its arguments, or a program inside ``folders``."""

    description: str = ""
    """The purpose of the command, for the model."""

    def __attrs_post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("argv: expected a program, got none")
        program = self.program
        if "\0" in program or (os.sep in program and not os.path.isabs(program)):
            raise ValueError(f"argv: expected the name of a program or an absolute path, got {program!r}")
        if is_launcher(os.path.basename(program)) and not self.shell:
            raise ValueError(f"argv: {program} runs the command in its arguments; expected shell = true, got false")
        self.patterns()

    def patterns(self) -> tuple[tuple[ArgumentPattern, ...], tuple[ArgumentPattern, ...]]:
        """Return the compiled patterns of ``argv`` (without the program) and of ``rest``.

        Raises:
            ValueError: A pattern is invalid.
        """
        first = tuple(ArgumentPattern.parse(text, literal=True) for text in self.argv[1:])
        return first, tuple(ArgumentPattern.parse(text) for text in self.rest)

    @property
    def program(self) -> str:
        """The program exactly as a call must write it."""
        return self.argv[0]

    @property
    def shown(self) -> str:
        """The rule on one line."""
        others = f" [{' | '.join(self.rest)}]…" if self.rest else ""
        return f"{' '.join(self.argv)}{others}"


@frozen(kw_only=True)
class Limits:
    """Resource limits of one command. ``processes`` counts its processes; each other limit applies to each of them."""

    cpu_seconds: int = field(default=300, validator=_count(1, 10**9))
    """Seconds of processor time, at least 1. The process then receives SIGXCPU, and SIGKILL five seconds later."""

    memory_bytes: int = field(default=8 * _GIB, validator=_count(_MIB, 2**53))
    """Bytes of address space, at least 1 MiB. Runtimes such as Java's reserve far more than they use."""

    file_bytes: int = field(default=_GIB, validator=_count(0, 2**53))
    """Bytes to which a file may grow, at least 0."""

    open_files: int = field(default=1024, validator=_count(3, 2**20))
    """Open descriptors, at least 3."""

    processes: int = field(default=256, validator=_count(1, 2**20))
    """Processes of one command, at least 1; a command with more is killed. If the server does not run as root, threads
    count as well, and no more can be started."""


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    allow: tuple[Rule, ...] = ()
    """The rules; without any, no command may be run."""

    folders: tuple[Path, ...] = ()
    """Folders in which commands may run, including everything below; the first one is the default. A relative path
    starts at the folder of the configuration file."""

    path: tuple[Path, ...] = (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin"))
    """Absolute folders in which programs are looked up, none of them inside ``folders``; also the PATH of commands."""

    inherit: tuple[str, ...] = ("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER")
    """Variables of the server's environment that commands inherit; no others are."""

    environment: Mapping[str, str] = field(
        factory=lambda: {
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "TERM": "dumb",
        }
    )
    """Further variables of commands, with their values."""

    client_environment: tuple[str, ...] = ()
    """Variables that a call may set. PATH and variables of the dynamic loader cannot be among them."""

    limits: Limits = field(factory=Limits)
    """Resource limits of a command."""

    no_new_privileges: bool = True
    """Disable the effect of set-user-ID programs such as sudo; Linux only."""

    default_timeout: float = field(default=60.0, validator=_seconds(0.01, 10**7))
    """Timeout of a command if the call sets none."""

    max_timeout: float = field(default=600.0, validator=_seconds(0.01, 10**7))
    """Maximum timeout of ``run_command``; a longer one is reduced."""

    max_age: float = field(default=3600.0, validator=_seconds(0.01, 10**7))
    """Maximum timeout of ``start_process``; a longer one is reduced."""

    grace: float = field(default=2.0, validator=_seconds(0, 60))
    """Seconds between SIGTERM and SIGKILL, 0 to 60."""

    max_running: int = field(default=16, validator=_count(1, 1000))
    """Commands that run concurrently, 1 to 1000; further ones are refused."""

    max_running_per_caller: int = field(default=8, validator=_count(1, 1000))
    """Concurrent commands of one caller (a principal, or an anonymous session), 1 to 1000."""

    max_kept: int = field(default=32, validator=_count(1, 10_000))
    """Ended commands whose output is kept, 1 to 10,000; the oldest is removed first."""

    keep_seconds: float = field(default=900.0, validator=_seconds(0, 10**7))
    """Seconds for which the output of an ended command is kept."""

    log_bytes: int = field(default=256 * _KIB, validator=_count(4 * _KIB, 64 * _MIB))
    """Output kept for each stream of a command, 4 KiB to 64 MiB: half from the beginning, half from the end."""

    result_bytes: int = field(default=16 * _KIB, validator=_count(_KIB, 16 * _MIB))
    """Output of each stream in one result, 1 KiB to 16 MiB."""

    max_output_bytes: int = field(default=64 * _MIB, validator=_count(4 * _KIB, 2**53))
    """Output after which a command is ended, at least 4 KiB."""

    max_input_bytes: int = field(default=_MIB, validator=_count(0, 16 * _MIB))
    """Standard input in one call, 0 to 16 MiB."""

    max_arguments: int = field(default=256, validator=_count(1, 10_000))
    """Arguments of one command, 1 to 10,000."""

    # Linux accepts at most 128 KiB, including the terminating zero, in one argument or variable.
    max_argument_bytes: int = field(default=64 * _KIB, validator=_count(1, 128 * _KIB - 1))
    """Bytes of all arguments, and separately of all variables that a call sets, 1 to 131,071."""

    progress_interval: float = field(default=0.25, validator=_seconds(0.05, 3600))
    """Seconds between two progress reports, at least 0.05."""

    def __attrs_post_init__(self) -> None:
        for name in ("folders", "path"):
            absolute = tuple(_absolute(name, path) for path in getattr(self, name))
            object.__setattr__(self, name, tuple(dict.fromkeys(absolute)))
        for name in (*self.inherit, *self.environment, *self.client_environment):
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"expected names of variables, got {name!r}")
        for name, value in self.environment.items():
            if "\0" in value:
                raise ValueError(f"environment.{name}: expected a value without NUL, got {value!r}")
        for name in self.client_environment:
            if _FORBIDDEN_VARIABLE.fullmatch(name):
                raise ValueError(f"client_environment: expected no variable that chooses what is run, got {name!r}")
        # A command could otherwise replace a program that a later call runs.
        for directory in self.path:
            real = Path(os.path.realpath(directory))
            for folder in self.folders:
                if real.is_relative_to(os.path.realpath(folder)):
                    raise ValueError(
                        f"path: expected folders outside those in which commands may write, got {directory} in {folder}"
                    )


def _absolute(name: str, path: Path) -> Path:
    text = os.path.expanduser(path)
    # A relative path in a file already starts at the file's folder, which itself may be relative.
    text = os.path.abspath(text) if name == "folders" else text
    # The folders become PATH, which has no escape for its separator.
    if not os.path.isabs(text) or "\0" in text or os.pathsep in text:
        raise ValueError(f"{name}: expected an absolute path without {os.pathsep!r}, got {str(path)!r}")
    return Path(os.path.normpath(text))
