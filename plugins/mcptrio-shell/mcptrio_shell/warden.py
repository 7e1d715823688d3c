"""The process between the server and a command: it sets the limits, starts the command, and ends all of it.

Run as a script by its path, with nothing of the package imported: ``python -I -S warden.py DESCRIPTOR``. One for each
command; the descriptor is a socket to the server, over which it is told what to start. The one rule: it is the parent
of whatever the command leaves behind, and it does not end before the system says that it has no child left.

Why a process of its own: limits have to hold from the command's first instruction, and in a server with threads no
Python may run between fork and exec; here there is one thread. It is the subreaper of the command (Linux), so what
detaches itself, by setsid or by forking twice, becomes its child and is ended too; in the server's own process that
would take the children of everybody else. And it sees the server's end of the socket close, so nothing outlives a
server that was killed.

What it does not reach: processes that another process has started on the command's behalf (a service manager, a
container engine, cron), and, elsewhere than on Linux, what has left the command's process group. A command runs as the
same user: one that kills its warden is ended with its group by the server, and what has left the group by then stays.

Source: prctl(2) "PR_SET_CHILD_SUBREAPER", "PR_SET_PDEATHSIG", "PR_SET_NO_NEW_PRIVS"; setrlimit(2); wait(2); setsid(2).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

__all__ = ["main"]

LENGTH = struct.Struct("!I")
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Of what the server sends first."""

TICK = 0.2
"""Seconds between two looks at how many processes there are."""
SHARE = 50
"""A look reads a file for each process of the machine; where that takes long, the next one is so many times later."""
FAST_TICK = 0.01
"""While it is killing."""
KILL_TIMEOUT = 10.0
"""Seconds after SIGKILL in which the last process has to be gone; only what hangs in the kernel is not."""

_SUBREAPER, _DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 36, 1, 38


class Warden:
    """One command, from its start to the end of the last process it has left."""

    def __init__(self, control: socket.socket, spec: dict[str, Any]) -> None:
        self._control = control
        self._spec = spec
        self._pid = 0
        self._why = "exited"
        self._exited = False
        self._deadline: float | None = None
        """When what is left is killed; ``None`` while nothing is to end."""
        self._stopped = 0
        """Processes that were left when the command itself had ended."""
        self._next_look = 0.0

    def run(self) -> None:
        wake = self._listen_to_children()
        if not self._start():
            return
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while self._reap():
            if self._exited and self._deadline is None:
                self._stopped = sum(state != "Z" for _, state in _descendants(os.getpid()))
                self._end(self._spec["grace"])
            for descriptor, _ in poll.poll(1000 * (FAST_TICK if self._is_killing() else TICK)):
                if descriptor == wake:
                    _empty(wake)
                else:
                    self._obey(poll)
            self._watch()
            if self._deadline is not None and time.monotonic() > self._deadline + KILL_TIMEOUT:
                break
        self._tell({"ended": self._why, "stopped": self._stopped})

    def _listen_to_children(self) -> int:
        """A descriptor that is readable when a child has ended."""
        reading, writing = os.pipe()
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return reading

    def _start(self) -> bool:
        """Start the command; whether that has worked."""
        reading, writing = os.pipe()  # closed by exec
        waiting, go = os.pipe()
        own = os.getpid()
        prctl = _prctl()
        prctl(_SUBREAPER, 1)
        most = self._spec["limits"]["processes"]
        others = len(_processes_of(os.getuid())) if os.getuid() else 0
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()
                os.close(go)
                os.read(waiting, 1)
                # Before anything that may fail: a warden that is killed takes the command along.
                prctl(_DEATH_SIGNAL, signal.SIGKILL)
                if os.getppid() != own:
                    os._exit(1)
                self._become(prctl, others + most + 1)
            except (OSError, ValueError, KeyError) as error:
                os.write(writing, LENGTH.pack(getattr(error, "errno", None) or errno.EINVAL))
            finally:
                os._exit(127)
        os.close(writing)
        os.close(waiting)
        # First of all: a command that kills its warden has to be known to the server.
        self._tell({"forked": self._pid})
        os.close(go)
        # What the command holds is the only other end of its pipes; they end with it.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        failed = os.read(reading, LENGTH.size)
        os.close(reading)
        if failed:
            os.waitpid(self._pid, 0)
            self._tell({"failed": LENGTH.unpack(failed)[0]})
            return False
        self._tell({"started": True})
        return True

    def _become(self, prctl: Any, processes: int) -> None:
        """Between fork and exec: never returns."""
        spec = self._spec
        limits = spec["limits"]
        os.fchdir(spec["cwd"])
        if spec["merge"]:
            os.dup2(1, 2)
        _limit(resource.RLIMIT_CPU, limits["cpu_seconds"], 5)
        _limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
        _limit(resource.RLIMIT_NOFILE, limits["open_files"])
        _limit(resource.RLIMIT_CORE, 0)
        _limit_processes(processes)
        if spec["no_new_privileges"]:
            prctl(_NO_NEW_PRIVILEGES, 1)
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    pass  # those that the C library keeps for itself
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Last: from here on nothing more is allocated that could not be.
        _limit(resource.RLIMIT_AS, limits["memory_bytes"])
        os.execve(spec["executable"], spec["argv"], spec["environment"])

    def _reap(self) -> bool:
        """Take leave of those that have ended; whether there are others."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._exited = True
                seconds = used.ru_utime + used.ru_stime
                self._tell({"exited": os.waitstatus_to_exitcode(status), "cpu_seconds": seconds})

    def _watch(self) -> None:
        """Kill what has to go, and what has become too many."""
        if self._is_killing():
            self._signal(signal.SIGKILL)
        elif self._deadline is None and (began := time.monotonic()) >= self._next_look:
            count = len(_descendants(os.getpid()))
            self._next_look = began + max(TICK, SHARE * (time.monotonic() - began))
            if count > self._spec["limits"]["processes"]:
                self._why = "processes"
                self._deadline = began
                self._signal(signal.SIGKILL)

    def _is_killing(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _end(self, grace: float) -> None:
        """Ask all that there is to end, and remember until when."""
        deadline = time.monotonic() + grace
        if self._deadline is not None:
            self._deadline = min(self._deadline, deadline)
            return
        self._deadline = deadline
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """To the command's group, and to the group of whatever has left it.

        A group of theirs holds nobody else: one can be joined only from within its session, and their sessions begin
        with the command's own.
        """
        own = os.getpgrp()
        # The number stays the group's as long as one of it lives, or nobody has taken leave of the first.
        groups = {self._pid} if not self._exited else set()
        # Those of state Z too: of a program whose first thread has ended, the others live on.
        for pid, _ in _descendants(os.getpid()):
            try:
                groups.add(os.getpgid(pid))
            except OSError:
                pass  # it is gone
        for group in groups - {own}:
            try:
                os.killpg(group, number)
            except OSError:
                pass  # gone, or of another user: a command that may change its user was allowed to

    def _obey(self, poll: select.poll) -> None:
        """Hear the server: T ends the command, K kills it, and a server that is gone does so too."""
        try:
            said = self._control.recv(64)
        except OSError:
            said = b""
        if not said:
            poll.unregister(self._control)
        if self._deadline is None or not said:
            self._why = "asked" if said else "server"
        self._end(0 if b"K" in said else self._spec["grace"])

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the server is gone, which the next look at the socket shows


def _limit(which: int, value: int, more: int = 0) -> None:
    """Lower a limit; one that is lower already stays. Some systems do not have all of them."""
    soft, hard = resource.getrlimit(which)
    highest = value + more if hard == resource.RLIM_INFINITY else min(value + more, hard)
    lowest = min(value, highest) if soft == resource.RLIM_INFINITY else min(value, highest, soft)
    try:
        resource.setrlimit(which, (lowest, highest))
    except ValueError:
        pass


def _limit_processes(most: int) -> None:
    """Lower the number of processes and threads its user may have, if what has been counted is all there is.

    The system counts those of other containers too, which we do not see; a limit below them would let nothing start.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    lowered = most if soft == resource.RLIM_INFINITY else min(most, soft)
    resource.setrlimit(resource.RLIMIT_NPROC, (lowered, hard))
    try:
        probe = os.fork()
    except BlockingIOError:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
        return
    if probe == 0:
        os._exit(0)
    os.waitpid(probe, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (lowered, lowered))


def _prctl() -> Any:
    """prctl(2), looked up before the fork; elsewhere than on Linux a function that does nothing."""
    if sys.platform != "linux":
        return lambda *arguments: 0
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).prctl
    function.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return lambda option, value: function(option, value, 0, 0, 0)


def _descendants(root: int) -> list[tuple[int, str]]:
    """The processes below one and their states, as far as /proc tells; none where there is no /proc."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, state in _processes():
        children.setdefault(parent, []).append((pid, state))
    found: list[tuple[int, str]] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [pid for pid, _ in below]
    return found


def _processes() -> list[tuple[int, int, str]]:
    """Number, parent and state of every process."""
    found = []
    for name in _numbers():
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name of the program, in parentheses, may hold anything.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # it is gone
        found.append((int(name), int(parent), state.decode()))
    return found


def _processes_of(user: int) -> list[str]:
    """The threads of a user, which RLIMIT_NPROC counts."""
    found = []
    for name in _numbers():
        try:
            if os.stat(f"/proc/{name}").st_uid == user:
                found += os.listdir(f"/proc/{name}/task")
        except OSError:
            continue  # it is gone
    return found


def _numbers() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _empty(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def _receive(control: socket.socket) -> dict[str, Any]:
    """What is to be started."""
    (length,) = LENGTH.unpack(_exactly(control, LENGTH.size))
    if length > MAX_REQUEST_BYTES:
        raise SystemExit(2)
    spec: dict[str, Any] = json.loads(_exactly(control, length))
    return spec


def _exactly(control: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = control.recv(count - len(data))
        if not piece:
            raise SystemExit(0)  # the server has changed its mind, or is gone
        data += piece
    return data


def main() -> None:
    """Start what the server says, and watch over it to the end."""
    descriptor = int(sys.argv[1])
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFD)
    fcntl.fcntl(descriptor, fcntl.F_SETFD, flags | fcntl.FD_CLOEXEC)
    control = socket.socket(fileno=descriptor)
    control.setblocking(True)
    spec = _receive(control)
    os.set_inheritable(spec["cwd"], False)
    Warden(control, spec).run()


if __name__ == "__main__":
    main()
