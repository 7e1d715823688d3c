"""The process between the server and a command: sets limits, starts the command, and ends all its processes.

The server runs it as a script, ``python -I -S warden.py DESCRIPTOR``, without importing the package. The descriptor is
a socket to the server, which sends the order. Each command has a warden, for three reasons:

- Limits must apply from the command's first instruction, and in a server with threads no Python code may run between
  fork and exec. The warden has a single thread.
- It is the subreaper of the command (Linux): processes that detach themselves with setsid or a double fork become its
  children and are ended too. In the server itself, this would affect the children of other code.
- It sees the server's end of the socket close, so no process outlives a killed server.

The warden cannot end processes that a service manager, a container engine or cron starts for the command, nor, on
systems other than Linux, processes that have left the command's group. A command runs as the same user as its warden.
If the command kills the warden, the server kills the command's group; processes that have left the group continue.

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
"""Maximum size of the order."""

COUNT_INTERVAL = 0.2
"""Seconds between two counts of the command's processes."""
COUNT_PAUSE_FACTOR = 50
"""A count reads one file for each process of the machine. The pause after it is at least this many times as long as the
count."""
KILL_INTERVAL = 0.01
"""Seconds between two rounds of SIGKILL."""
KILL_TIMEOUT = 10.0
"""Seconds after the first SIGKILL until the warden stops waiting. Only processes blocked in the kernel take longer."""

_SUBREAPER, _DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 36, 1, 38


class Warden:
    """One command, from its start until its last process has ended."""

    def __init__(self, control: socket.socket, spec: dict[str, Any]) -> None:
        self._control = control
        self._spec = spec
        self._pid = 0
        self._end_reason = "exited"
        self._has_exited = False
        # Time of SIGKILL; None until the processes must end.
        self._deadline: float | None = None
        # Processes that were still running when the command itself exited.
        self._leftover_count = 0
        self._next_count = 0.0

    def run(self) -> None:
        wake = self._listen_to_children()
        if not self._start():
            return
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while self._reap():
            if self._has_exited and self._deadline is None:
                self._leftover_count = sum(state != "Z" for _, state in _descendants(os.getpid()))
                self._terminate(self._spec["grace"])
            for descriptor, _ in poll.poll(1000 * (KILL_INTERVAL if self._is_killing() else COUNT_INTERVAL)):
                if descriptor == wake:
                    _drain(wake)
                else:
                    self._handle_order(poll)
            self._enforce_limits()
            if self._deadline is not None and time.monotonic() > self._deadline + KILL_TIMEOUT:
                break
        self._report({"ended": self._end_reason, "stopped": self._leftover_count})

    def _listen_to_children(self) -> int:
        """Return a descriptor that becomes readable when a child exits."""
        reading, writing = os.pipe()
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)
        # Only a signal with a handler writes to the wakeup descriptor.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        # A signal that the command sends to its parent must not end the warden early.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return reading

    def _start(self) -> bool:
        """Start the command; return True if it runs."""
        # exec closes this pipe; if exec fails, the child writes errno to it.
        reading, writing = os.pipe()
        # The child waits at this pipe until the server knows its process id.
        go_reading, go_writing = os.pipe()
        own = os.getpid()
        prctl = _prctl()
        prctl(_SUBREAPER, 1)
        limit = self._spec["limits"]["processes"]
        others = len(_processes_of(os.getuid())) if os.getuid() else 0
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()
                os.close(go_writing)
                os.read(go_reading, 1)
                # Before any step that may fail: if the warden is killed, the kernel kills the command as well.
                prctl(_DEATH_SIGNAL, signal.SIGKILL)
                if os.getppid() != own:
                    os._exit(1)
                self._execute(prctl, others + limit + 1)
            except (OSError, ValueError, KeyError) as error:
                os.write(writing, LENGTH.pack(getattr(error, "errno", None) or errno.EINVAL))
            finally:
                os._exit(127)
        os.close(writing)
        os.close(go_reading)
        # The server must know the process id before the command runs, because the command may kill its warden.
        self._report({"forked": self._pid})
        os.close(go_writing)
        # If the warden kept its ends of the command's pipes open, the server would not see the end of the output.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        failed = os.read(reading, LENGTH.size)
        os.close(reading)
        if failed:
            os.waitpid(self._pid, 0)
            self._report({"failed": LENGTH.unpack(failed)[0]})
            return False
        self._report({"started": True})
        return True

    def _execute(self, prctl: Any, processes: int) -> None:
        """Set the limits and execute the command. Runs between fork and exec; never returns."""
        spec = self._spec
        limits = spec["limits"]
        os.fchdir(spec["cwd"])
        if spec["merge"]:
            os.dup2(1, 2)
        # SIGXCPU at the soft limit, SIGKILL five seconds later at the hard one.
        _lower_limit(resource.RLIMIT_CPU, limits["cpu_seconds"], 5)
        _lower_limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
        _lower_limit(resource.RLIMIT_NOFILE, limits["open_files"])
        _lower_limit(resource.RLIMIT_CORE, 0)
        _lower_process_limit(processes)
        if spec["no_new_privileges"]:
            prctl(_NO_NEW_PRIVILEGES, 1)
        # exec keeps ignored signals and the signal mask; the command must start with the defaults.
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    pass  # reserved by the C library
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Last, because further allocations could fail from here on.
        _lower_limit(resource.RLIMIT_AS, limits["memory_bytes"])
        os.execve(spec["executable"], spec["argv"], spec["environment"])

    def _reap(self) -> bool:
        """Reap children that have exited; return True if others are left."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._has_exited = True
                seconds = used.ru_utime + used.ru_stime
                self._report({"exited": os.waitstatus_to_exitcode(status), "cpu_seconds": seconds})

    def _enforce_limits(self) -> None:
        """Kill the processes if the grace period has passed or there are too many of them."""
        if self._is_killing():
            self._signal(signal.SIGKILL)
        elif self._deadline is None and (began := time.monotonic()) >= self._next_count:
            count = len(_descendants(os.getpid()))
            self._next_count = began + max(COUNT_INTERVAL, COUNT_PAUSE_FACTOR * (time.monotonic() - began))
            if count > self._spec["limits"]["processes"]:
                self._end_reason = "processes"
                self._deadline = began
                self._signal(signal.SIGKILL)

    def _is_killing(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _terminate(self, grace: float) -> None:
        """Send SIGTERM to all processes, and set the time of SIGKILL."""
        deadline = time.monotonic() + grace
        if self._deadline is not None:
            self._deadline = min(self._deadline, deadline)
            return
        self._deadline = deadline
        self._signal(signal.SIGTERM)
        # A stopped process handles SIGTERM only once it continues.
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the command's group, and the group of each process that has left it.

        These groups contain no foreign processes. Only members of a session can join its groups, and the command starts
        its own session.
        """
        own = os.getpgrp()
        # Until the command is reaped, no other group can have its id.
        groups = {self._pid} if not self._has_exited else set()
        # A zombie counts as well: if only the first thread of a program has ended, its other threads still run.
        for pid, _ in _descendants(os.getpid()):
            try:
                groups.add(os.getpgid(pid))
            except OSError:
                pass  # it has exited
        for group in groups - {own}:
            try:
                os.killpg(group, number)
            except OSError:
                pass  # it has exited, or runs as another user because the operator allows set-user-ID programs

    def _handle_order(self, poll: select.poll) -> None:
        """Handle an order of the server: T ends the command, K kills it. A closed socket ends it as T does."""
        try:
            order = self._control.recv(64)
        except OSError:
            order = b""
        if not order:
            poll.unregister(self._control)
        if self._deadline is None or not order:
            self._end_reason = "asked" if order else "server"
        self._terminate(0 if b"K" in order else self._spec["grace"])

    def _report(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the server has closed the socket, which the next poll reports


def _lower_limit(which: int, value: int, more: int = 0) -> None:
    """Lower a limit. A limit that is already lower is kept."""
    soft, hard = resource.getrlimit(which)
    highest = value + more if hard == resource.RLIM_INFINITY else min(value + more, hard)
    lowest = min(value, highest) if soft == resource.RLIM_INFINITY else min(value, highest, soft)
    try:
        # Some systems do not have all limits.
        resource.setrlimit(which, (lowest, highest))
    except ValueError:
        pass


def _lower_process_limit(max_processes: int) -> None:
    """Lower RLIMIT_NPROC, unless the limit would prevent the command from starting anything."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    lowered = max_processes if soft == resource.RLIM_INFINITY else min(max_processes, soft)
    resource.setrlimit(resource.RLIMIT_NPROC, (lowered, hard))
    try:
        # The kernel also counts processes of other containers, which /proc does not show. Only a fork tests the limit.
        probe = os.fork()
    except BlockingIOError:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
        return
    if probe == 0:
        os._exit(0)
    os.waitpid(probe, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (lowered, lowered))


def _prctl() -> Any:
    """Return prctl(2), looked up before the fork; on other systems than Linux, a function that does nothing."""
    if sys.platform != "linux":
        return lambda *arguments: 0
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).prctl
    function.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return lambda option, value: function(option, value, 0, 0, 0)


def _descendants(root: int) -> list[tuple[int, str]]:
    """Return pids and states of all processes below ``root``, according to /proc; none without /proc."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, state in _processes():
        children.setdefault(parent, []).append((pid, state))
    descendants: list[tuple[int, str]] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        descendants += below
        waiting += [pid for pid, _ in below]
    return descendants


def _processes() -> list[tuple[int, int, str]]:
    """Return pid, parent and state of every process."""
    processes = []
    for name in _pids():
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The program's name in parentheses may contain anything, including parentheses.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # it has exited meanwhile
        processes.append((int(name), int(parent), state.decode()))
    return processes


def _processes_of(user: int) -> list[str]:
    """Return the ids of a user's threads, which RLIMIT_NPROC counts."""
    processes = []
    for name in _pids():
        try:
            if os.stat(f"/proc/{name}").st_uid == user:
                processes += os.listdir(f"/proc/{name}/task")
        except OSError:
            continue  # it has exited meanwhile
    return processes


def _pids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def _receive_spec(control: socket.socket) -> dict[str, Any]:
    # The order: its length, then JSON.
    (length,) = LENGTH.unpack(_receive_exactly(control, LENGTH.size))
    if length > MAX_REQUEST_BYTES:
        raise SystemExit(2)
    spec: dict[str, Any] = json.loads(_receive_exactly(control, length))
    return spec


def _receive_exactly(control: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = control.recv(count - len(data))
        if not piece:
            raise SystemExit(0)  # the server has cancelled the start or exited
        data += piece
    return data


def main() -> None:
    """Start the command that the server orders, and watch it until all its processes have ended."""
    descriptor = int(sys.argv[1])
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFD)
    fcntl.fcntl(descriptor, fcntl.F_SETFD, flags | fcntl.FD_CLOEXEC)
    control = socket.socket(fileno=descriptor)
    control.setblocking(True)
    spec = _receive_spec(control)
    # The command must not inherit a descriptor of the folder.
    os.set_inheritable(spec["cwd"], False)
    Warden(control, spec).run()


if __name__ == "__main__":
    main()
