"""Runs git for a call: in a checked repository, with one writer at a time, and within a deadline.

All tools, resources, prompts and completions use it. Only this module runs git, so every git process has a checked
repository, a clean environment, and limits of output and time.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import define, field, frozen

from mcptrio import Context, ToolError

from .arguments import check_name, check_revision
from .binary import GitBinary, find_git, read_version
from .config import Config
from .environment import Kind, environment
from .process import GitCommand, Output, run
from .progress import GitProgress
from .repositories import NO_REPOSITORY, Repositories, Repository
from .text import printable, redact_urls, text_of

__all__ = [
    "MAX_LIST_BYTES",
    "GitAccess",
    "GitObject",
    "RepositoryWork",
    "failure_reason",
    "messages_of",
    "missing_directory",
]

logger = logging.getLogger(__name__)

MAX_LIST_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes of a list that are read for one result; a longer list is marked as truncated."""

_ID = r"[0-9a-f]{40}|[0-9a-f]{64}"
_CHECKED_SETTINGS = (
    r"^(core\.(worktree|sshcommand|gitproxy|alternaterefscommand)|filter\..*\.(clean|smudge|process)|merge\..*\.driver"
    r"|gpg\.(.*\.)?(program|defaultkeycommand)|credential\.(.*\.)?helper|include\.path|includeif\..*\.path)$"
)
_OBJECT = rf"({_ID}) (commit|tree|blob|tag) ([0-9]+)"
_REPOSITORY_SCOPES = ("local", "worktree")
"""The scopes of git's configuration that belong to the repository."""
_MAX_MESSAGE_CHARS = 2000
_MAX_CACHED_CHECKS = 1000
"""Maximum number of repositories whose checks are cached; when full, the least recently used one is evicted."""
_STAMP_RESOLUTION, _COARSE_STAMP_RESOLUTION = 0.03, 2.0
"""Seconds after which another change of a file also changes its time stamp. The first is for time stamps from the
system's clock, which ticks at least every 10 ms; the second is for file systems that store whole seconds."""

_Stamp = tuple[tuple[int, ...] | None, ...]


@frozen(eq=False, repr=False)
class GitObject:
    """A git object."""

    id: str
    kind: str
    size: int


def missing_directory(path: str) -> str:
    """Return the problem of a configured path that is not a directory."""
    return f"repositories of [plugins.git]: there is no directory {printable(path)}; create it or correct the setting"


@define(eq=False, repr=False)
class GitAccess:
    """Runs git with the rights that the configuration allows."""

    config: Config
    repositories: Repositories = field(init=False)
    _checked_configurations: dict[Repository, tuple[_Stamp, tuple[str, ...]]] = field(init=False, factory=dict)
    """For each repository, the programs that its own configuration names, and the stamp of the configuration files."""
    _binary: GitBinary | None = field(init=False, default=None)
    _processes: trio.CapacityLimiter = field(init=False)
    _write_locks: dict[str, tuple[trio.Lock, int]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.repositories = Repositories(self.config)
        self._processes = trio.CapacityLimiter(self.config.max_processes)

    async def report_missing(self) -> None:
        """Log each configured path that cannot be used. Runs once, when the server starts."""
        if not self.config.repositories and self.config.clone_folder is None:
            logger.warning(NO_REPOSITORY)
        for path in await trio.to_thread.run_sync(self.repositories.missing, abandon_on_cancel=True):
            logger.warning("%s", missing_directory(path))

    @asynccontextmanager
    async def open(self, ctx: Context, repo_path: str, kind: Kind = Kind.READ) -> AsyncIterator[RepositoryWork]:
        """Open a repository for one call, with the timeout of its kind. Only one call at a time may change it.

        Raises:
            ToolError: The repository is not allowed, git is missing, or the timeout has expired.
        """
        async with self._within_timeout(kind):
            repository, stamp = await trio.to_thread.run_sync(self._find, repo_path, limiter=ctx.server.threads)
            binary = await self.binary(ctx)
            progress = GitProgress(ctx, "git", kind is Kind.NETWORK)
            work = RepositoryWork(self, repository, binary, kind, progress)
            if kind is Kind.READ:
                await self._check_configuration(work, stamp)
                yield work
            else:
                async with self._write_lock(repository.common_dir):
                    # The previous writer may have changed the configuration.
                    stamp = await trio.to_thread.run_sync(_stamp, repository, limiter=ctx.server.threads)
                    await self._check_configuration(work, stamp)
                    yield work

    @asynccontextmanager
    async def open_folder(self, ctx: Context, folder: str) -> AsyncIterator[RepositoryWork]:
        """Open a folder in which git creates a repository from a remote.

        Raises:
            ToolError: Git is missing, or the timeout has expired.
        """
        async with self._within_timeout(Kind.NETWORK):
            binary = await self.binary(ctx)
            no_repository = Repository(root=folder, git_dir="", common_dir="")
            async with self._write_lock(folder):
                progress = GitProgress(ctx, "git", uses_network=True)
                yield RepositoryWork(self, no_repository, binary, Kind.NETWORK, progress)

    async def binary(self, ctx: Context) -> GitBinary:
        """Return the path and version of git. The first successful search is cached.

        Raises:
            ToolError: Git was not found, or is too old.
        """
        if self._binary is None:
            path = await trio.to_thread.run_sync(find_git, self.config.git, limiter=ctx.server.threads)
            env = environment(self.config, Kind.READ, root=os.sep, is_bare=False)
            output = await self.run(
                GitCommand(argv=(path, "version"), cwd=os.sep, env=env, limit=1000),
                GitProgress(ctx, "git", uses_network=False),
            )
            self._binary = GitBinary(path=path, version=read_version(text_of(output.stdout)))
        return self._binary

    async def run(self, command: GitCommand, progress: GitProgress) -> Output:
        """Run a command as soon as the limit allows another process."""
        async with self._processes:
            return await run(command, progress)

    def _find(self, repo_path: str) -> tuple[Repository, _Stamp]:
        repository = self.repositories.find(repo_path)
        return repository, _stamp(repository)

    async def _check_configuration(self, work: RepositoryWork, stamp: _Stamp) -> None:
        """Check the configuration, unless its files have not changed since the last check."""
        known = self._checked_configurations.pop(work.repository, None)
        if known is None or known[0] != stamp:
            is_whole = await work.check_configuration()
            if not is_whole or not _detects_every_change(stamp):
                return
            known = stamp, work.programs
        work.programs = known[1]
        self._checked_configurations[work.repository] = known
        if len(self._checked_configurations) > _MAX_CACHED_CHECKS:
            del self._checked_configurations[next(iter(self._checked_configurations))]

    @asynccontextmanager
    async def _within_timeout(self, kind: Kind) -> AsyncIterator[None]:
        config = self.config
        seconds = {
            Kind.READ: config.read_timeout,
            Kind.WRITE: config.write_timeout,
            Kind.NETWORK: config.network_timeout,
        }[kind]
        try:
            with trio.fail_after(seconds):
                await trio.lowlevel.checkpoint()  # a cancelled call must not start git
                yield
        except trio.TooSlowError as error:
            raise ToolError(
                f"git did not finish within {seconds:g} seconds and was stopped; request less, or raise "
                f"{kind.value}_timeout in [plugins.git]"
            ) from error

    @asynccontextmanager
    async def _write_lock(self, data: str) -> AsyncIterator[None]:
        """Hold the lock for changing a repository. Git's own lock files protect it from other programs."""
        lock, waiting = self._write_locks.get(data, (trio.Lock(), 0))
        self._write_locks[data] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._write_locks.pop(data)
            if waiting > 1:
                self._write_locks[data] = lock, waiting - 1


@define(eq=False, repr=False)
class RepositoryWork:
    """Runs the git commands of one call in one repository."""

    access: GitAccess
    repository: Repository
    binary: GitBinary
    kind: Kind
    progress: GitProgress
    programs: tuple[str, ...] = field(init=False, default=())
    """Keys of the repository's own configuration that name programs."""

    @property
    def config(self) -> Config:
        return self.access.config

    @property
    def root(self) -> str:
        return self.repository.root

    async def check_configuration(self) -> bool:
        """Check the repository's own configuration for programs and for another work tree.

        Returns:
            True if the result is valid until one of the repository's configuration files changes. It is not if they
            include other files, or set a work tree, whose path may contain links.

        Raises:
            ToolError: The configuration sets another work tree.
        """
        arguments = ("config", "-z", "--show-scope", "--get-regexp", _CHECKED_SETTINGS)
        output = await self.git(*arguments, kind=Kind.READ, codes=(0, 1))
        if output.cut:
            raise ToolError(
                f"expected a configuration of at most {MAX_LIST_BYTES} bytes, got more at {printable(self.root)}"
            )
        programs: list[str] = []
        is_whole = True
        parts = os.fsdecode(output.stdout).split("\0")  # fsdecode, because a key may contain bytes that are not UTF-8
        for scope, setting in zip(parts[::2], parts[1::2], strict=False):
            key, _, value = setting.partition("\n")
            if scope not in _REPOSITORY_SCOPES:
                continue
            if key.startswith(("include.", "includeif.")):
                is_whole = False
                continue
            if key != "core.worktree":
                programs.append(key)
                continue
            is_whole = False
            tree = await trio.to_thread.run_sync(os.path.realpath, os.path.join(self.repository.git_dir, value))
            if tree != self.root:
                raise ToolError(
                    f"not an allowed repository: core.worktree of {printable(self.root)} is {printable(value)!r}"
                )
        self.programs = tuple(programs)
        return is_whole

    async def git(
        self,
        *arguments: str,
        options: Sequence[str] = (),
        kind: Kind | None = None,
        stdin: bytes = b"",
        skip: int = 0,
        limit: int = MAX_LIST_BYTES,
        codes: Sequence[int] = (0,),
    ) -> Output:
        """Run a git command.

        Args:
            arguments: The command and its arguments. Values from outside must have been checked.
            options: Options of git that precede the command.
            kind: The rights of the command, if it needs less than those of the call.
            skip: Number of bytes of output that are dropped first.
            limit: Maximum number of bytes of output. A command with more is ended, and its output is ``cut``.
            codes: The exit codes that mean success.

        Raises:
            ToolError: The command failed; the error has git's message.
        """
        self.progress.what = f"git {arguments[0]}"
        command = GitCommand(
            argv=(self.binary.path, "--no-pager", *options, *arguments),
            cwd=self.root,
            env=self._environment(kind or self.kind),
            stdin=stdin,
            skip=skip,
            limit=limit,
            processor_time=self.config.read_timeout if self.kind is Kind.READ else None,
            dies_with_us=self.kind is Kind.NETWORK,
        )
        output = await self.access.run(command, self.progress)
        if output.code not in codes and not output.cut:
            raise ToolError(f"git {arguments[0]} failed: {failure_reason(output)}")
        return output

    async def text(self, *arguments: str, codes: Sequence[int] = (0,)) -> str:
        """Return the output of a command that reads, without the last line end; empty if the exit code is allowed but
        not 0."""
        output = await self.git(*arguments, kind=Kind.READ, codes=codes)
        return text_of(output.stdout).rstrip("\n") if output.code == 0 else ""

    async def resolve(self, revision: str, where: str, *, with_path: bool = False) -> str:
        """Return the id of the commit that a revision names, or with ``with_path`` that of any object.

        Raises:
            ToolError: The revision is invalid or does not exist.
        """
        [git_object] = await self.resolve_all((revision, where), with_path=with_path)
        return git_object.id

    async def resolve_all(self, *revisions: tuple[str, str], with_path: bool = False) -> list[GitObject]:
        """Resolve revisions to commits, or with ``with_path`` to any objects, in one git process.

        Args:
            revisions: Pairs of a revision and its argument.

        Raises:
            ToolError: A revision is invalid or does not exist.
        """
        names = [check_revision(revision, where, with_path=with_path) for revision, where in revisions]
        git_objects = await self.objects(*(name if with_path else f"{name}^{{commit}}" for name in names))
        objects: list[GitObject] = []
        for each, (revision, where) in zip(git_objects, revisions, strict=True):
            if each is None:
                unborn = " (nothing has been committed yet)" if revision == "HEAD" else ""
                raise ToolError(f"no such revision at `{where}`: {printable(revision, 200)!r}{unborn}")
            objects.append(each)
        return objects

    async def objects(self, *names: str) -> list[GitObject | None]:
        """Return the objects with these names, which must not contain line ends. ``None`` stands for a missing one."""
        # On standard input, a name cannot be an option.
        text = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogatepass")
        output = await self.git("cat-file", "--batch-check", kind=Kind.READ, stdin=text)
        objects: list[GitObject | None] = []
        for line in text_of(output.stdout).split("\n")[: len(names)]:
            facts = re.fullmatch(_OBJECT, line)  # for a missing object, the line is the name and "missing"
            objects.append(GitObject(facts[1], facts[2], int(facts[3])) if facts else None)
        return objects

    async def resolve_range(self, revision: str, where: str) -> tuple[str, str, str]:
        """Resolve a revision, or a range of two: ``a..b`` or ``a...b``. A side that is left out is HEAD.

        Returns:
            The first id, the dots, and the second id; the latter two are empty for one revision.
        """
        for dots in ("...", ".."):
            if dots in revision:
                first, _, second = revision.partition(dots)
                one, other = await self.resolve_all((first or "HEAD", where), (second or "HEAD", where))
                return one.id, dots, other.id
        return await self.resolve(revision, where), "", ""

    async def check_name(self, prefix: str, name: str, where: str) -> str:
        """Return the full name of a branch or tag. It cannot be an option, a refspec (``:``, ``+``) or a pattern.

        Args:
            prefix: ``refs/heads/`` or ``refs/tags/``.

        Raises:
            ToolError: Git does not allow this name.
        """
        check_name(name, where)
        output = await self.git("check-ref-format", prefix + name, kind=Kind.READ, codes=(0, 1))
        if output.code:
            raise ToolError(
                f"expected a name that git allows (see git help check-ref-format) at `{where}`,"
                f" got {printable(name, 200)!r}"
            )
        return prefix + name

    async def head(self) -> tuple[str | None, str | None]:
        """Return the checked-out branch, None for a detached HEAD, and its commit, None before the first commit."""
        branch = await self.text("symbolic-ref", "--quiet", "--short", "HEAD", codes=(0, 1))
        commit = await self.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", codes=(0, 1, 128))
        return branch or None, commit or None

    def _environment(self, kind: Kind) -> Mapping[str, str]:
        return environment(self.config, kind, root=self.root, is_bare=self.repository.is_bare, programs=self.programs)


def _stamp(repository: Repository) -> _Stamp:
    """Return a value that changes with the files of the repository's own configuration. Blocks."""
    files = (os.path.join(repository.common_dir, "config"), os.path.join(repository.git_dir, "config.worktree"))
    stamps: list[tuple[int, ...] | None] = []
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(stamps)


def _detects_every_change(stamp: _Stamp) -> bool:
    """Return whether each further change of one of the files will change the stamp."""
    now = time.time_ns()
    changed = [each[-1] for each in stamp if each is not None]
    return all(at + 10**9 * (_STAMP_RESOLUTION if at % 10**9 else _COARSE_STAMP_RESOLUTION) < now for at in changed)


def failure_reason(output: Output) -> str:
    """Return the reason of a failure: the last messages of the command, or its exit code."""
    message = messages_of(output)
    if "index.lock" in message:
        message += "\nanother git process is running in this repository, or was killed there"
    return message or f"exit code {output.code}"


def messages_of(output: Output) -> str:
    """Return the messages of a command and its hooks: the last 2000 characters, without secrets in URLs."""
    output_text = text_of(output.stdout[-_MAX_MESSAGE_CHARS:] + b"\n" + output.stderr).replace("\r", "\n")
    lines = [line.rstrip() for line in output_text.split("\n") if line.strip() and not line.startswith("hint: ")]
    message = redact_urls("\n".join(printable(line, 500) for line in lines[-50:]))
    return message if len(message) <= _MAX_MESSAGE_CHARS else "…" + message[-_MAX_MESSAGE_CHARS:]
