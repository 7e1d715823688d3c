"""What the operator may set: ``[plugins.shell]`` in mcptrio.toml.

Made by mcptrio from the table, or by an embedder. The one rule: without rules nothing may be run, and a rule that would
let more run than it shows must say so.

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
"""Programs whose business is to run what their arguments say; a rule for one of them says ``shell = true``."""

_FORBIDDEN_VARIABLE = re.compile(r"PATH|LD_.*|DYLD_.*|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|PS4")
"""Variables with which a call would choose the program, or code in it, by itself."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _count(least: int, most: int) -> Any:
    return and_(instance_of(int), ge(least), le(most))


def _seconds(least: float, most: float) -> Any:
    return and_(instance_of((int, float)), ge(least), le(most))


def is_launcher(name: str) -> bool:
    """Whether a program of this name runs what its arguments say."""
    return LAUNCHERS.fullmatch(name.lower()) is not None


@frozen(kw_only=True)
class Rule:
    """One kind of command that may be run."""

    argv: tuple[str, ...]
    """The program and the arguments that must come first. The program is a name that is looked up in ``path``, or an
    absolute path; the others are patterns."""

    rest: tuple[str, ...] = ()
    """Patterns of which each further argument must match one; without any, there may be none. ``*`` is any text, ``?``
    a character, ``{path}`` a path inside ``folders``, ``{integer}`` digits, ``re:`` begins a regular expression. An
    argument that begins with a dash is matched only by a pattern that does."""

    shell: bool = False
    """Allow this rule a shell, or another program that runs what its arguments say, or one that lies in ``folders``."""

    description: str = ""
    """What the command is good for; the model reads it."""

    def __attrs_post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("argv: expected a program, got none")
        program = self.program
        if "\0" in program or (os.sep in program and not os.path.isabs(program)):
            raise ValueError(f"argv: expected the name of a program or an absolute path, got {program!r}")
        if is_launcher(os.path.basename(program)) and not self.shell:
            raise ValueError(f"argv: {program} runs what its arguments say; expected shell = true beside it, got false")
        self.patterns()

    def patterns(self) -> tuple[tuple[ArgumentPattern, ...], tuple[ArgumentPattern, ...]]:
        """``argv`` without the program, and ``rest``, compiled.

        Raises:
            ValueError: one is no pattern.
        """
        first = tuple(ArgumentPattern.parse(text, literal=True) for text in self.argv[1:])
        return first, tuple(ArgumentPattern.parse(text) for text in self.rest)

    @property
    def program(self) -> str:
        """The program as the call must write it."""
        return self.argv[0]

    @property
    def shown(self) -> str:
        """The rule on one line."""
        others = f" [{' | '.join(self.rest)}]…" if self.rest else ""
        return f"{' '.join(self.argv)}{others}"


@frozen(kw_only=True)
class Limits:
    """What one command may take of the machine. Each holds for every process of it, but for ``processes``."""

    cpu_seconds: int = field(default=300, validator=_count(1, 10**9))
    """Seconds of processor time, 1 or more; then SIGXCPU, and SIGKILL after another five."""

    memory_bytes: int = field(default=8 * _GIB, validator=_count(_MIB, 2**53))
    """Bytes of address space, 1 MiB or more. Runtimes such as Java's reserve far more than they use."""

    file_bytes: int = field(default=_GIB, validator=_count(0, 2**53))
    """Bytes to which a file may grow; 0 or more."""

    open_files: int = field(default=1024, validator=_count(3, 2**20))
    """Descriptors, 3 or more."""

    processes: int = field(default=256, validator=_count(1, 2**20))
    """Processes of one command, 1 or more; one that has more is killed. Where the server does not run as root, each
    thread counts as well, and no more can be started."""


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    allow: tuple[Rule, ...] = ()
    """The commands that may be run; without any, none."""

    folders: tuple[Path, ...] = ()
    """Folders in which commands may be run, with all below; the first is where they run by default."""

    path: tuple[Path, ...] = (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin"))
    """Absolute folders in which programs are looked up, none of them inside ``folders``; also the commands' PATH."""

    inherit: tuple[str, ...] = ("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER")
    """Variables of the server's environment that commands get; no other is inherited."""

    environment: Mapping[str, str] = field(
        factory=lambda: {
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "TERM": "dumb",
        }
    )
    """Variables that commands get besides, with their values."""

    client_environment: tuple[str, ...] = ()
    """Variables that a call may set; PATH and those of the loader cannot be among them."""

    limits: Limits = field(factory=Limits)
    """What a command may take of the machine."""

    no_new_privileges: bool = True
    """Take from commands what programs with a set-user-ID bit would give them, such as sudo; Linux only."""

    default_timeout: float = field(default=60.0, validator=_seconds(0.01, 10**7))
    """How long a command may run where the call does not say."""

    max_timeout: float = field(default=600.0, validator=_seconds(0.01, 10**7))
    """How long ``run_command`` may let one run, whatever it asks for."""

    max_age: float = field(default=3600.0, validator=_seconds(0.01, 10**7))
    """How long a process of ``start_process`` may run, whatever it asks for."""

    grace: float = field(default=2.0, validator=_seconds(0, 60))
    """Between SIGTERM and SIGKILL, 0 to 60."""

    max_running: int = field(default=16, validator=_count(1, 1000))
    """Commands that run at the same time, 1 to 1000; one more is refused."""

    max_running_per_caller: int = field(default=8, validator=_count(1, 1000))
    """The same of one caller: of who has signed in, or else of one session; 1 to 1000."""

    max_kept: int = field(default=32, validator=_count(1, 10_000))
    """Commands that have ended and whose output is kept, 1 to 10,000; the oldest goes first."""

    keep_seconds: float = field(default=900.0, validator=_seconds(0, 10**7))
    """How long the output of a command is kept after its end."""

    log_bytes: int = field(default=256 * _KIB, validator=_count(4 * _KIB, 64 * _MIB))
    """Output that is kept of each stream of a command, 4 KiB to 64 MiB: half of it from the beginning, half to the
    end."""

    result_bytes: int = field(default=32 * _KIB, validator=_count(_KIB, 16 * _MIB))
    """Output of each stream in one answer, 1 KiB to 16 MiB."""

    max_output_bytes: int = field(default=64 * _MIB, validator=_count(4 * _KIB, 2**53))
    """Output after which a command is ended, 4 KiB or more."""

    max_input_bytes: int = field(default=_MIB, validator=_count(0, 16 * _MIB))
    """Standard input in one call, 0 to 16 MiB."""

    max_arguments: int = field(default=256, validator=_count(1, 10_000))
    """Arguments of one command, 1 to 10,000."""

    max_argument_bytes: int = field(default=64 * _KIB, validator=_count(1, 128 * _KIB - 1))
    """Bytes of all arguments together, and of all variables a call sets, 1 to 131,071."""

    progress_interval: float = field(default=0.25, validator=_seconds(0.05, 3600))
    """Seconds between two lines of output that are reported as progress, 0.05 or more."""

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
        for directory in self.path:
            real = Path(os.path.realpath(directory))
            for folder in self.folders:
                if real.is_relative_to(os.path.realpath(folder)):
                    raise ValueError(
                        f"path: expected folders outside those in which commands may write, got {directory} in {folder}"
                    )


def _absolute(name: str, path: Path) -> Path:
    text = os.path.expanduser(path)
    if not os.path.isabs(text) or "\0" in text or os.pathsep in text:
        raise ValueError(f"{name}: expected an absolute path without {os.pathsep!r}, got {str(path)!r}")
    return Path(os.path.normpath(text))
