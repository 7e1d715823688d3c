"""Allowed and refused commands: rules, patterns, programs, folders, variables, limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcptrio_shell.config import Config, Limits, Rule
from mcptrio_shell.patterns import ArgumentPattern
from mcptrio_shell.policy import CommandPolicy, PermittedCommand

from mcptrio import ToolError


def decide(folder: Path, *rules: Rule, argv: list[str], cwd: str | None = None, **settings: Any) -> PermittedCommand:
    environment = settings.pop("env", {})
    return CommandPolicy(Config(allow=rules, folders=(folder,), **settings)).decide(argv, cwd, environment)


def program(path: Path, text: str = "#!/bin/sh\necho fake\n") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


LOG = Rule(argv=("git", "log"), rest=("--oneline", "-n", "{integer}", "{path}"))
ANYTHING = Rule(argv=("echo",), rest=("*",))


def test_command_is_refused_without_rules_with_advice(inside: Path) -> None:
    with pytest.raises(ToolError, match=r"(?s)no command is allowed.*\[\[plugins\.shell\.allow\]\]"):
        decide(inside, argv=["ls"])
    with pytest.raises(ToolError, match=r"no folder is allowed: set folders"):
        CommandPolicy(Config(allow=(ANYTHING,))).decide(["echo"], None, {})


def test_rule_allows_matching_arguments(inside: Path) -> None:
    command = decide(inside, LOG, argv=["git", "log", "--oneline", "-n", "5", "src/a.py"])

    assert command.executable in {"/usr/bin/git", "/usr/local/bin/git", "/bin/git"}
    assert command.cwd == str(inside)


@pytest.mark.parametrize(
    "argv",
    [
        ["git"],
        ["git", "push"],
        ["git", "-c", "alias.log=!sh", "log"],
        ["git", "log", "--output=/etc/cron.d/x"],
        ["git", "log", "--output", "x"],
        ["git", "log", "--oneline=x"],
        ["git", "log", "-n5"],
        ["git", "log", "--", "x"],
        ["git", "log", "-"],
        ["git", "log", ""],
        ["git", "log", "/etc/passwd"],
        ["git", "log", "../outside"],
        ["git", "log", "ext::sh -c id"],
        ["git", "log", "host:file"],
        ["git", "log\n"],
        ["git ", "log"],
        ["/usr/bin/git", "log"],
        ["./git", "log"],
        ["GIT", "log"],
        ["git", "log", "a\0b"],
    ],
)
def test_arguments_that_match_no_rule_are_refused(inside: Path, argv: list[str]) -> None:
    with pytest.raises(ToolError):
        decide(inside, LOG, argv=argv)


def test_star_does_not_match_an_option(inside: Path) -> None:
    assert decide(inside, ANYTHING, argv=["echo", "a b;$(id)\n*", ""]).argv[1] == "a b;$(id)\n*"
    for option in ("-e", "--version", "-", "--"):
        with pytest.raises(ToolError, match=r"(?s)not allowed: echo.*one of these:\necho \[\*\]"):
            decide(inside, ANYTHING, argv=["echo", option])


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("--max-count=*", ["--max-count=", "--max-count=5"], ["--max-counts", "-max-count=5"]),
        ("?.py", ["a.py"], ["ab.py", "-.py"]),
        ("[ab]*", ["a", "bcd"], ["c", "-a"]),
        ("{integer}", ["0", "42"], ["-1", "1.0", "x", "٣", "1\n", "9" * 19]),
        ("re:(add|remove)", ["add", "remove"], ["adds", "add\n", "-add"]),
        ("re:--(a|b)", ["--a", "--b"], ["--c", "a"]),
        ("re:(-a|b)", ["b"], ["-a"]),
        ("--file={path}", ["--file=x"], ["--file=/x", "--file=", "x", "--file"]),
    ],
)
def test_patterns_match_arguments(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = ArgumentPattern.parse(pattern)

    def is_inside(path: str) -> bool:
        return not path.startswith("/")

    assert [each for each in (*matching, *other) if compiled.matches(each, is_inside)] == matching


def test_path_is_allowed_by_its_resolved_target(inside: Path, outside: Path) -> None:
    rule = Rule(argv=("cat",), rest=("{path}",))
    (inside / "sub").mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "sub" / "back").symlink_to("../x")

    for path in ("x", "sub/../x", str(inside / "x"), "sub/back", "./a:b", "."):
        decide(inside, rule, argv=["cat", path])
    decide(inside, rule, argv=["cat", "../x"], cwd="sub")
    for path in ("link/secret", "../outside/secret", str(outside), "sub/../../x", "link"):
        with pytest.raises(ToolError, match="not allowed"):
            decide(inside, rule, argv=["cat", path])


def test_working_folder_is_resolved_before_it_is_allowed(inside: Path, outside: Path) -> None:
    (inside / "sub").mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "home").symlink_to("sub")
    (inside / "file").touch()

    assert decide(inside, ANYTHING, argv=["echo"], cwd="home").cwd == str(inside / "sub")
    for cwd in ("..", "link", str(outside), "/", "file", "none", "sub/../..", "~", "a\0b", "\ud800"):
        with pytest.raises(ToolError, match="cwd: expected"):
            decide(inside, ANYTHING, argv=["echo"], cwd=cwd)


def test_program_is_searched_in_the_configured_path_only(
    inside: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(inside / "echo")
    program(outside / "echo")
    monkeypatch.setenv("PATH", f".:{outside}")
    monkeypatch.chdir(inside)

    command = decide(inside, ANYTHING, argv=["echo"])

    assert command.executable in {"/usr/bin/echo", "/bin/echo"}
    assert command.environment["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    with pytest.raises(ToolError, match="no such program"):
        decide(inside, Rule(argv=("none-of-these",)), argv=["none-of-these"])
    with pytest.raises(ValueError, match="path: expected folders outside"):
        Config(folders=(inside,), path=(inside / "bin",))
    (outside / "link").symlink_to(inside)
    with pytest.raises(ValueError, match="path: expected folders outside"):
        Config(folders=(inside,), path=(outside / "link",))
    for path in (Path("bin"), Path(".")):
        with pytest.raises(ValueError, match="path: expected an absolute path"):
            Config(path=(path,))


def test_relative_folder_is_made_absolute(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inside.parent)

    assert Config(folders=(Path(inside.name), Path("."))).folders == (inside, inside.parent)


def test_link_to_a_shell_needs_a_shell_rule(inside: Path, outside: Path) -> None:
    (outside / "tool").symlink_to("/bin/sh")
    with pytest.raises(ToolError, match=r"it is a link to .*, and its rule allows no shell"):
        decide(inside, Rule(argv=("tool",)), argv=["tool"], path=(outside,))
    assert decide(inside, Rule(argv=("tool",), shell=True), argv=["tool"], path=(outside,))

    (outside / "other").symlink_to(program(inside / "written"))
    for rule in (Rule(argv=("other",)), Rule(argv=(str(outside / "other"),)), Rule(argv=(str(inside / "written"),))):
        with pytest.raises(ToolError, match="in which commands may write"):
            decide(inside, rule, argv=[rule.program], path=(outside,))

    # A program that may write in the folder can replace a harmless link a moment later.
    (inside / "good").symlink_to("/bin/echo")
    with pytest.raises(ToolError, match="in which commands may write"):
        decide(inside, Rule(argv=(str(inside / "good"),)), argv=[str(inside / "good")])


def test_world_writable_program_is_not_run(inside: Path, outside: Path) -> None:
    program(outside / "tool").chmod(0o757)
    with pytest.raises(ToolError, match="every user of the machine may replace it"):
        decide(inside, Rule(argv=("tool",)), argv=["tool"], path=(outside,))

    (outside / "tool").chmod(0o755)
    assert decide(inside, Rule(argv=("tool",)), argv=["tool"], path=(outside,))
    outside.chmod(0o777)
    with pytest.raises(ToolError, match="every user"):
        decide(inside, Rule(argv=("tool",)), argv=["tool"], path=(outside,))


def test_any_matching_rule_may_allow_a_shell(inside: Path, outside: Path) -> None:
    (outside / "tool").symlink_to("/bin/sh")
    rules = (Rule(argv=("tool",)), Rule(argv=("tool",), shell=True))

    assert decide(inside, *rules, argv=["tool"], path=(outside,))


def test_only_named_environment_variables_are_inherited(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    monkeypatch.setenv("LANG", "() { :; }; echo hacked")
    monkeypatch.setenv("TZ", "UTC")

    environment = decide(inside, ANYTHING, argv=["echo"]).environment

    assert "hush" not in environment.values()
    assert "LANG" not in environment
    assert environment["TZ"] == "UTC"
    assert environment["TERM"] == "dumb"


def test_call_can_set_allowed_variables_only(inside: Path) -> None:
    settings: dict[str, Any] = {"client_environment": ("DEBUG",)}

    assert decide(inside, ANYTHING, argv=["echo"], env={"DEBUG": "1"}, **settings).environment["DEBUG"] == "1"
    for name in ("PATH", "LD_PRELOAD", "debug", "BASH_ENV", ""):
        with pytest.raises(ToolError, match="env: expected variables that may be set"):
            decide(inside, ANYTHING, argv=["echo"], env={name: "x"}, **settings)
    with pytest.raises(ToolError, match="env: expected text without NUL"):
        decide(inside, ANYTHING, argv=["echo"], env={"DEBUG": "a\0b"}, **settings)
    for name in ("PATH", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "IFS"):
        with pytest.raises(ValueError, match="client_environment: expected no variable that chooses"):
            Config(client_environment=(name,))


def test_arguments_are_bounded(inside: Path) -> None:
    for argv, problem in (
        ([], "expected 1 to 3 arguments, got 0"),
        (["echo", "1", "2", "3"], "expected 1 to 3 arguments, got 4"),
        (["echo", "x" * 100], "expected at most 50 bytes"),
        (["echo", "\ud800"], "a lone surrogate"),
    ):
        with pytest.raises(ToolError, match=problem):
            decide(inside, ANYTHING, argv=argv, max_arguments=3, max_argument_bytes=50)


@pytest.mark.parametrize(
    ("argv", "rest", "problem"),
    [
        ((), (), "expected a program, got none"),
        (("bin/tool",), (), "name of a program or an absolute path"),
        (("sh", "-c"), ("*",), "runs the command in its arguments; expected shell = true"),
        (("/usr/bin/env",), (), "runs the command in its arguments"),
        (("sudo", "-n", "id"), (), "runs the command in its arguments"),
        (("git",), ("",), "expected a pattern"),
        (("git",), ("re:(",), "expected a regular expression"),
        (("git",), ("{paths}",), "expected {path} or {integer}"),
    ],
)
def test_invalid_rule_is_refused(argv: tuple[str, ...], rest: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("{", r"\{")):
        Rule(argv=argv, rest=rest)


def test_setting_out_of_range_is_refused() -> None:
    for wrong in (
        {"grace": 61},
        {"max_running": 0},
        {"log_bytes": 1},
        {"inherit": ("A-B",)},
        {"folders": (Path("x:y"),)},
    ):
        with pytest.raises((ValueError, TypeError)):
            Config(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cpu_seconds"):
        Limits(cpu_seconds=0)
    assert Config(folders=(Path("~"),)).folders == (Path(os.path.expanduser("~")),)


@pytest.mark.parametrize("argument", ["of=/etc/passwd", "of=x", "@/etc/passwd", "@x"])
def test_path_with_a_prefix_that_a_program_interprets_is_refused(inside: Path, argument: str) -> None:
    rule = Rule(argv=("dd",), rest=("{path}", "of={path}"))

    with pytest.raises(ToolError, match="not allowed"):
        decide(inside, Rule(argv=("dd",), rest=("{path}",)), argv=["dd", argument])
    assert decide(inside, rule, argv=["dd", "of=x", "./of=x"]).argv == ("dd", "of=x", "./of=x")


@pytest.mark.parametrize("program", ["awk", "gawk", "/usr/bin/mawk", "flock", "strace", "systemd-run"])
def test_rule_for_a_program_that_runs_its_arguments_needs_shell_true(program: str) -> None:
    with pytest.raises(ValueError, match="expected shell = true"):
        Rule(argv=(program,), rest=("*",))
