"""Probes of git: reachable paths, executed programs, large repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from plugin_probes.process import measured_call
from plugin_probes.trial import Probes, Trial

__all__ = ["REPOSITORIES", "git", "make_repository"]


def command(trial: Trial) -> tuple[str, ...]:
    return serve(trial, make_repository(trial))


def serve(trial: Trial, repository: Path) -> tuple[str, ...]:
    if trial.references is not None:
        return trial.references.of_python("mcp_server_git", "--repository", str(repository))
    return trial.ours({"repositories": [str(repository)]})


REPOSITORIES = Probes(
    "git",
    "`mcp-server-git` 2026.10.19",
    command,
    {},
    (
        "The reference is faster at calls that need one git process or none: ours first reads the repository's "
        "configuration in a separate process ([figures](performance.md)).",
        "The reference runs on Windows; ours needs Linux or macOS.",
    ),
    [],
)


@REPOSITORIES("A request for a repository when none is configured")
async def unconfigured(trial: Trial) -> str:
    repository = make_repository(trial)
    everything = trial.references.of_python("mcp_server_git") if trial.references else trial.ours({})
    async with trial.talk(everything) as talk:
        return str(await talk.call("git_status", repo_path=str(repository)))


@REPOSITORIES("A repository that is not the configured one")
async def outside(trial: Trial) -> str:
    one, other = make_repository(trial), make_repository(trial)
    async with trial.talk(serve(trial, one)) as talk:
        return str(await talk.call("git_status", repo_path=str(other)))


@REPOSITORIES("A folder inside, whose `.git` is a file that names a repository outside")
async def git_file(trial: Trial) -> str:
    one, other = make_repository(trial), make_repository(trial, "a commit of somebody else")
    (one / "below").mkdir()
    (one / "below" / ".git").write_text(f"gitdir: {other / '.git'}\n")
    async with trial.talk(serve(trial, one)) as talk:
        answer = await talk.call("git_log", repo_path=str(one / "below"))
    return "returned the log of the other repository" if "somebody else" in answer.text else str(answer)


@REPOSITORIES("Options as revisions: `--output=FILE`, `--upload-pack=FILE` and the like, in six arguments")
async def options(trial: Trial) -> str:
    repository = make_repository(trial)
    written = repository.parent / "written"
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("git_diff", {"target": f"--output={written}"}),
        ("git_show", {"revision": f"--output={written}"}),
        ("git_checkout", {"branch_name": "--orphan=x"}),
        ("git_create_branch", {"branch_name": "x", "base_branch": f"--upload-pack={written}"}),
        ("git_log", {"start_timestamp": f"--output={written}"}),
        ("git_add", {"files": [f"--pathspec-from-file={written}"]}),
    )
    refused = 0
    async with trial.talk(serve(trial, repository)) as talk:
        for tool, arguments in calls:
            refused += (await talk.call(tool, repo_path=str(repository), **arguments)).is_error
    return f"{refused} of {len(calls)} refused" + (", a file was written" if written.exists() else "")


@REPOSITORIES("A program that the repository configures as `core.fsmonitor`, at `git_status`")
async def monitor(trial: Trial) -> str:
    repository = make_repository(trial)
    ran = _program(repository, "core.fsmonitor")
    async with trial.talk(serve(trial, repository)) as talk:
        await talk.call("git_status", repo_path=str(repository))
    return "was run" if ran.exists() else "was not run"


@REPOSITORIES("A program that the repository configures as `diff.external`, at `git_diff_unstaged`")
async def external(trial: Trial) -> str:
    repository = make_repository(trial)
    ran = _program(repository, "diff.external")
    (repository / "poem.txt").write_text("Other words\n")
    async with trial.talk(serve(trial, repository)) as talk:
        await talk.call("git_diff_unstaged", repo_path=str(repository))
    return "was run" if ran.exists() else "was not run"


@REPOSITORIES("The repository's `pre-commit` hook fails")
async def hook(trial: Trial) -> str:
    repository = make_repository(trial)
    file = repository / ".git" / "hooks" / "pre-commit"
    file.parent.mkdir(exist_ok=True)
    file.write_text("#!/bin/sh\necho no poems today\nexit 1\n")
    file.chmod(0o755)
    (repository / "poem.txt").write_text("Other words\n")
    async with trial.talk(serve(trial, repository)) as talk:
        await talk.call("git_add", repo_path=str(repository), files=["poem.txt"])
        answer = await talk.call("git_commit", repo_path=str(repository), message="Change it")
    count = git(repository, "rev-list", "--count", "HEAD")
    return ("commits all the same" if count == "2" else "does not commit") + f"; {answer}"


@REPOSITORIES("A commit in a repository with `commit.gpgsign`")
async def signing(trial: Trial) -> str:
    repository = make_repository(trial)
    ran = _program(repository, "gpg.program")
    git(repository, "config", "commit.gpgsign", "true")
    (repository / "poem.txt").write_text("Other words\n")
    async with trial.talk(serve(trial, repository)) as talk:
        await talk.call("git_add", repo_path=str(repository), files=["poem.txt"])
        await talk.call("git_commit", repo_path=str(repository), message="Change it")
    return "is signed" if ran.exists() else "is not signed"


@REPOSITORIES("A diff of 50 MB", is_measured=True)
async def large(trial: Trial) -> str:
    repository = make_repository(trial)
    (repository / "poem.txt").write_text("0123456789abcde\n" * (50_000_000 // 16))
    arguments = {"repo_path": str(repository)}
    got = await measured_call(serve(trial, repository), "git_diff_unstaged", arguments, cwd=repository, env={})
    return f"an answer of {got.size / 1e6:,.1f} MB, memory up to {got.memory:,.0f} MiB"


@REPOSITORIES("Adding a file outside, by `../` and by a symbolic link")
async def adding(trial: Trial) -> str:
    repository = make_repository(trial)
    (repository.parent / "outside.txt").write_text("outside")
    (repository / "up").symlink_to(repository.parent)
    refused = 0
    async with trial.talk(serve(trial, repository)) as talk:
        for path in ("../outside.txt", "up/outside.txt"):
            refused += (await talk.call("git_add", repo_path=str(repository), files=[path])).is_error
    return f"{refused} of 2 refused"


@REPOSITORIES("The author of each line (`git_blame`), the lines that contain a word (`git_grep`)")
async def looking(trial: Trial) -> str:
    repository = make_repository(trial)
    async with trial.talk(serve(trial, repository)) as talk:
        blame = await talk.call("git_blame", repo_path=str(repository), path="poem.txt")
        grep = await talk.call("git_grep", repo_path=str(repository), pattern="Roses")
    return f"{'no tool' if blame.is_error else 'reported'}, {'no tool' if grep.is_error else 'reported'}"


@REPOSITORIES("A revert that conflicts, the history of one line, a discarded change (`git_restore`)")
async def undone(trial: Trial) -> str:
    repository = make_repository(trial)
    path = repository / "poem.txt"
    for text in ("Violets are blue\n", "Violets are green\n"):
        path.write_text(text)
        git(repository, "commit", "-am", text.strip())
    where: dict[str, Any] = {"repo_path": str(repository)}
    async with trial.talk(serve(trial, repository)) as talk:
        if (await talk.call("git_restore", **where, paths=["poem.txt"])).is_error:
            return "no tool, no tool, no tool"
        revert = await talk.call("git_revert", **where, commit="HEAD~1")
        log = await talk.call("git_log", **where, paths=["poem.txt"], line_range="1,1")
        path.write_text("scribble\n")
        await talk.call("git_restore", **where, paths=["poem.txt"])
    state = "nothing changed" if "nothing has changed" in revert.text and git(repository, "diff") == "" else "changed"
    return f"{state}, {log.text.count('Violets')} of 2 commits, {path.read_text().strip()}"


def make_repository(trial: Trial, message: str = "Begin a poem") -> Path:
    folder = trial.make_folder("repository")
    git(folder, "init", "--initial-branch=main")
    git(folder, "config", "user.name", "Tester")
    git(folder, "config", "user.email", "tester@example.com")
    git(folder, "config", "commit.gpgsign", "false")
    (folder / "poem.txt").write_text("Roses are red\n")
    git(folder, "add", "poem.txt")
    git(folder, "commit", "-m", message)
    return folder


def _program(repository: Path, setting: str) -> Path:
    """Set a program, and return the file that it makes."""
    ran = repository.parent / "ran"
    program = repository.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    git(repository, "config", setting, str(program))
    return ran


def git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, timeout=30, env=env)
    return done.stdout.decode().strip()
