"""Runs git for a call: in a checked repository, with one writer at a time, and within a deadline.

Every tool, resource, prompt and completion uses it. Only this module runs git, so every run has a checked repository, a
clean environment, and bounds on output and time.
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
from .binary import Binary, find_git, read_version
from .config import Config
from .environment import Kind, environment
from .process import GitCommand, Output, run
from .progress import GitProgress
from .repositories import Repositories, Repository
from .text import printable, redacted, text_of

__all__ = ["LISTING", "GitAccess", "Object", "RepositoryWork", "missing_directory", "reason_of", "said_by"]

logger = logging.getLogger(__name__)

LISTING = 8 * 1024 * 1024
"""Bytes of a list that are read for one result; a longer list is truncated, and the result says so."""

_ID = r"[0-9a-f]{40}|[0-9a-f]{64}"
_SURVEYED = (
    r"^(core\.(worktree|sshcommand|gitproxy|alternaterefscommand)|filter\..*\.(clean|smudge|process)|merge\..*\.driver"
    r"|gpg\.(.*\.)?(program|defaultkeycommand)|credential\.(.*\.)?helper|include\.path|includeif\..*\.path)$"
)
_OBJECT = rf"({_ID}) (commit|tree|blob|tag) ([0-9]+)"
_REPOSITORY_SCOPES = ("local", "worktree")
"""Scopes of configuration that belong to the repository."""
_MAX_MESSAGE_CHARS = 2000
_SURVEYS = 1000
"""Repositories whose surveys are cached; when full, the oldest one is evicted."""
_SETTLED, _COARSE = 0.03, 2.0
"""Seconds after which another change of a file also changes its time stamp: the first for time stamps from the system's
clock, which ticks every 10 ms or more often; the second for file systems that store whole seconds."""

_Stamp = tuple[tuple[int, ...] | None, ...]


@frozen(eq=False, repr=False)
class Object:
    """The object of a revision."""

    id: str
    kind: str
    size: int


def missing_directory(path: str) -> str:
    """Return the problem of a configured path that is no directory."""
    return (
        f"repositories of [plugins.git]: expected a directory, got nothing or something else at {printable(path)}; "
        "create it or correct the setting"
    )


@define(eq=False, repr=False)
class GitAccess:
    """Runs git with the rights that the configuration allows."""

    config: Config
    repositories: Repositories = field(init=False)
    _surveys: dict[Repository, tuple[_Stamp, tuple[str, ...]]] = field(init=False, factory=dict)
    """The programs that a repository's own configuration names, and the files that this was read from."""
    _binary: Binary | None = field(init=False, default=None)
    _processes: trio.CapacityLimiter = field(init=False)
    _writing: dict[str, tuple[trio.Lock, int]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.repositories = Repositories(self.config)
        self._processes = trio.CapacityLimiter(self.config.max_processes)

    async def report_missing(self) -> None:
        """Log each configured path that cannot be used. Runs once, when the server starts."""
        if not self.config.repositories and self.config.clone_folder is None:
            logger.warning("no repository is allowed; set repositories in [plugins.git] or MCPTRIO_GIT_REPOSITORIES")
        for path in await trio.to_thread.run_sync(self.repositories.missing, abandon_on_cancel=True):
            logger.warning("%s", missing_directory(path))

    @asynccontextmanager
    async def open(self, ctx: Context, repo_path: str, kind: Kind = Kind.READ) -> AsyncIterator[RepositoryWork]:
        """Open a repository for one call, within the timeout of its kind. Only one call at a time changes something.

        Raises:
            ToolError: the repository is not allowed, git is missing, or the timeout has expired.
        """
        async with self._in_time(kind):
            repository, stamp = await trio.to_thread.run_sync(self._find, repo_path, limiter=ctx.server.threads)
            binary = await self.binary(ctx)
            progress = GitProgress(ctx, "git", kind is Kind.NETWORK)
            work = RepositoryWork(self, repository, binary, kind, progress)
            if kind is Kind.READ:
                await self._survey(work, stamp)
                yield work
            else:
                async with self._one_writer(repository.common_dir):
                    # The previous writer may have changed the configuration.
                    stamp = await trio.to_thread.run_sync(_stamp, repository, limiter=ctx.server.threads)
                    await self._survey(work, stamp)
                    yield work

    @asynccontextmanager
    async def open_folder(self, ctx: Context, folder: str) -> AsyncIterator[RepositoryWork]:
        """Work in a folder that holds no repository yet, with a remote.

        Raises:
            ToolError: git is missing, or the timeout has expired.
        """
        async with self._in_time(Kind.NETWORK):
            binary = await self.binary(ctx)
            nowhere = Repository(root=folder, git_dir="", common_dir="")
            async with self._one_writer(folder):
                yield RepositoryWork(self, nowhere, binary, Kind.NETWORK, GitProgress(ctx, "git", talks=True))

    async def binary(self, ctx: Context) -> Binary:
        """Return the path and version of git, which is searched until it has been found once.

        Raises:
            ToolError: there is none, or it is too old.
        """
        if self._binary is None:
            path = await trio.to_thread.run_sync(find_git, self.config.git, limiter=ctx.server.threads)
            env = environment(self.config, Kind.READ, root=os.sep, is_bare=False)
            output = await self.run(
                GitCommand(argv=(path, "version"), cwd=os.sep, env=env, limit=1000),
                GitProgress(ctx, "git", talks=False),
            )
            self._binary = Binary(path=path, version=read_version(text_of(output.stdout)))
        return self._binary

    async def run(self, command: GitCommand, progress: GitProgress) -> Output:
        """Run a command as soon as the limit allows another process."""
        async with self._processes:
            return await run(command, progress)

    def _find(self, repo_path: str) -> tuple[Repository, _Stamp]:
        repository = self.repositories.find(repo_path)
        return repository, _stamp(repository)

    async def _survey(self, work: RepositoryWork, stamp: _Stamp) -> None:
        """Check the configuration, unless its files have not changed since the last check."""
        known = self._surveys.pop(work.repository, None)
        if known is None or known[0] != stamp:
            is_whole = await work.survey()
            if not is_whole or not _is_settled(stamp):
                return
            known = stamp, work.programs
        work.programs = known[1]
        self._surveys[work.repository] = known
        if len(self._surveys) > _SURVEYS:
            del self._surveys[next(iter(self._surveys))]

    @asynccontextmanager
    async def _in_time(self, kind: Kind) -> AsyncIterator[None]:
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
    async def _one_writer(self, data: str) -> AsyncIterator[None]:
        """Let one call at a time change a repository. Against other programs, git's own lock files protect it."""
        lock, waiting = self._writing.get(data, (trio.Lock(), 0))
        self._writing[data] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._writing.pop(data)
            if waiting > 1:
                self._writing[data] = lock, waiting - 1


@define(eq=False, repr=False)
class RepositoryWork:
    """One call's work in one repository."""

    access: GitAccess
    repository: Repository
    binary: Binary
    kind: Kind
    progress: GitProgress
    programs: tuple[str, ...] = field(init=False, default=())
    """Settings of the repository's own that name programs."""

    @property
    def config(self) -> Config:
        return self.access.config

    @property
    def root(self) -> str:
        return self.repository.root

    async def survey(self) -> bool:
        """Check the repository's own configuration for programs and for another work tree.

        Returns:
            True if the result is valid until one of its own files changes: it includes no other file, and the path of
            the work tree contains no links.

        Raises:
            ToolError: its work tree is elsewhere.
        """
        arguments = ("config", "-z", "--show-scope", "--get-regexp", _SURVEYED)
        output = await self.git(*arguments, kind=Kind.READ, codes=(0, 1))
        if output.cut:
            raise ToolError(f"expected a configuration of at most {LISTING} bytes, got more at {printable(self.root)}")
        programs: list[str] = []
        is_whole = True
        parts = os.fsdecode(output.stdout).split("\0")  # a name need not be UTF-8, and is returned unchanged
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
        limit: int = LISTING,
        codes: Sequence[int] = (0,),
    ) -> Output:
        """Run a git command.

        Args:
            arguments: without ``git``; values from outside have been checked.
            options: options of git that come before the command.
            kind: the rights of the command, if less than those of the call.
            skip: bytes of output that are dropped first.
            limit: bytes of output that are kept; beyond them the command is ended, and the output is ``cut``.
            codes: the exit statuses of success.

        Raises:
            ToolError: it failed; the message is git's.
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
            raise ToolError(f"git {arguments[0]} failed: {reason_of(output)}")
        return output

    async def text(self, *arguments: str, codes: Sequence[int] = (0,)) -> str:
        """Return the output of a reading command without the line end; empty if its exit status is allowed but not
        0."""
        output = await self.git(*arguments, kind=Kind.READ, codes=codes)
        return text_of(output.stdout).rstrip("\n") if output.code == 0 else ""

    async def resolve(self, revision: str, where: str, *, with_path: bool = False) -> str:
        """The id of the commit that a revision names; with a path, of whatever it names.

        Raises:
            ToolError: it is no revision, or names nothing.
        """
        [found] = await self.look_up((revision, where), with_path=with_path)
        return found.id

    async def look_up(self, *wanted: tuple[str, str], with_path: bool = False) -> list[Object]:
        """Resolve revisions: to commits, or with a path to any object. Uses one process for all.

        Args:
            wanted: pairs of a revision and its argument.

        Raises:
            ToolError: one of them is not a revision, or does not exist.
        """
        names = [check_revision(revision, where, with_path=with_path) for revision, where in wanted]
        found = await self.objects(*(name if with_path else f"{name}^{{commit}}" for name in names))
        objects: list[Object] = []
        for each, (revision, where) in zip(found, wanted, strict=True):
            if each is None:
                unborn = " (nothing has been committed yet)" if revision == "HEAD" else ""
                raise ToolError(f"no such revision at `{where}`: {printable(revision, 200)!r}{unborn}")
            objects.append(each)
        return objects

    async def objects(self, *names: str) -> list[Object | None]:
        """Return the objects with these names, which contain no line ends. On standard input, a name cannot be an
        option."""
        text = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogatepass")
        output = await self.git("cat-file", "--batch-check", kind=Kind.READ, stdin=text)
        found: list[Object | None] = []
        for line in text_of(output.stdout).split("\n")[: len(names)]:
            facts = re.fullmatch(_OBJECT, line)  # otherwise the line repeats the name, followed by "missing" or similar
            found.append(Object(facts[1], facts[2], int(facts[3])) if facts else None)
        return found

    async def resolve_range(self, revision: str, where: str) -> tuple[str, str, str]:
        """A revision, or two of them: ``a..b``, ``a...b``; a side that is left out is HEAD.

        Returns:
            The first id, the dots, and the second id; the latter two are empty for one revision.
        """
        for dots in ("...", ".."):
            if dots in revision:
                first, _, second = revision.partition(dots)
                one, other = await self.look_up((first or "HEAD", where), (second or "HEAD", where))
                return one.id, dots, other.id
        return await self.resolve(revision, where), "", ""

    async def check_name(self, space: str, name: str, where: str) -> str:
        """Return the full name of a branch or tag, which can be no option, refspec (``:``, ``+``) or pattern.

        Args:
            space: ``refs/heads/`` or ``refs/tags/``.

        Raises:
            ToolError: it is not a valid name for git.
        """
        check_name(name, where)
        output = await self.git("check-ref-format", space + name, kind=Kind.READ, codes=(0, 1))
        if output.code:
            raise ToolError(
                f"expected a name that git allows (see git help check-ref-format) at `{where}`,"
                f" got {printable(name, 200)!r}"
            )
        return space + name

    async def head(self) -> tuple[str | None, str | None]:
        """The branch that is checked out, and its commit; None for a detached HEAD, and before the first commit."""
        branch = await self.text("symbolic-ref", "--quiet", "--short", "HEAD", codes=(0, 1))
        commit = await self.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", codes=(0, 1, 128))
        return branch or None, commit or None

    def _environment(self, kind: Kind) -> Mapping[str, str]:
        return environment(self.config, kind, root=self.root, is_bare=self.repository.is_bare, programs=self.programs)


def _stamp(repository: Repository) -> _Stamp:
    """Return the stamps of the files of the repository's own configuration, which change with it. Blocks."""
    files = (os.path.join(repository.common_dir, "config"), os.path.join(repository.git_dir, "config.worktree"))
    stamps: list[tuple[int, ...] | None] = []
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return tuple(stamps)


def _is_settled(stamp: _Stamp) -> bool:
    """Return whether every change of one of the files will change its stamp."""
    now = time.time_ns()
    changed = [each[-1] for each in stamp if each is not None]
    return all(at + 10**9 * (_SETTLED if at % 10**9 else _COARSE) < now for at in changed)


def reason_of(output: Output) -> str:
    """The reason of a failure: the end of the command's own messages."""
    message = said_by(output)
    if "index.lock" in message:
        message += "\nanother git process is at work in this repository, or one was killed there"
    return message or f"exit code {output.code}"


def said_by(output: Output) -> str:
    """Return the messages of a command and its hooks: the last 2000 characters, without secrets in URLs."""
    whole = text_of(output.stdout[-_MAX_MESSAGE_CHARS:] + b"\n" + output.stderr).replace("\r", "\n")
    lines = [line.rstrip() for line in whole.split("\n") if line.strip() and not line.startswith("hint: ")]
    message = redacted("\n".join(printable(line, 500) for line in lines[-50:]))
    return message if len(message) <= _MAX_MESSAGE_CHARS else "…" + message[-_MAX_MESSAGE_CHARS:]
