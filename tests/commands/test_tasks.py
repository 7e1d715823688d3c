"""Tasks at the command line: ``call --detach``, ``tasks``, ``task``, and Ctrl-C during a call that is a task."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests.commands.processes import AtTerminal, at_terminal, run, started
from tests.processes import WAIT_TIMEOUT, serving

__all__: list[str] = []

PLUGIN = Path(__file__).parent / "task_plugin.py"


@frozen
class Site:
    """A server with tasks, and a user with a list of detached ones."""

    url: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.folder / "state")}

    @property
    def list_file(self) -> Path:
        return self.folder / "state" / "mcptrio" / "tasks" / "tasks.json"

    def run(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        return run(*args, cwd=self.folder, env=self.env)

    def out(self, *args: str, code: int = 0) -> str:
        done = self.run(*args)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout.decode()

    def detach(self, tool: str = "dig", *args: str) -> str:
        return self.out("call", self.url, tool, *args, "--detach").removesuffix("\n")

    def listed(self, *args: str) -> list[dict[str, Any]]:
        document: list[dict[str, Any]] = json.loads(self.out("tasks", *args, "--json"))["tasks"]
        return document

    @contextmanager
    def digging(self) -> Iterator[AtTerminal]:
        """Yield a call of ``dig`` at a terminal, once it is a task."""
        with at_terminal("call", self.url, "dig", "until=end", cwd=self.folder, env=self.env) as terminal:
            terminal.until("dig  stones \\(1 of 4\\)")
            yield terminal

    def until_cancelled(self) -> None:
        deadline = time.monotonic() + WAIT_TIMEOUT
        while not (self.folder / "end.cancelled").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        yield Site(f"http://127.0.0.1:{served.port}/mcp", tmp_path)


def test_call_follows_a_task_and_shows_its_status(site: Site) -> None:
    (site.folder / "end").touch()
    done = site.run("call", site.url, "dig", "until=end")

    assert (done.returncode, done.stdout) == (0, b"dug\n")
    assert done.stderr == b"dig: stones (1 of 4)\n"


def test_detached_task_is_listed_until_its_result_is_read(site: Site) -> None:
    id = site.detach("dig", "until=end")
    assert site.out("task", id) == "working: stones (1 of 4)\n"
    [working] = site.listed()
    (site.folder / "end").touch()
    result = site.out("task", id, "--wait")
    [completed] = site.listed()

    assert (working["id"], working["status"], working["message"]) == (id, "working", "stones (1 of 4)")
    assert (working["tool"], working["server"]) == ("dig", site.url)
    assert result == "dug\n"
    assert completed == {**working, "status": "completed"}
    assert json.loads(site.out("task", id, "--wait", "--json"))["content"] == [{"type": "text", "text": "dug"}]
    assert json.loads(site.out("task", id, "--json")) == {
        "taskId": id,
        "status": "completed",
        "statusMessage": "stones (1 of 4)",
    }


def test_tasks_are_shown_as_a_table(site: Site) -> None:
    id = site.detach("dig", "until=end")
    rows = [line.split() for line in site.out("tasks").splitlines()]

    assert rows[0] == ["id", "status", "tool", "started", "server", "message"]
    assert rows[1][:3] == [id, "working", "dig"]
    assert site.run("tasks", "http://127.0.0.1:9/mcp").stderr == b"no detached tasks\n"
    assert site.listed(site.url) == site.listed()


def test_detach_prints_json(site: Site) -> None:
    printed = json.loads(site.out("call", site.url, "dig", "until=end", "--detach", "--json"))

    assert [each["id"] for each in site.listed()] == [printed["taskId"]]


def test_detached_call_that_has_ended_shows_its_result(site: Site) -> None:
    done = site.run("call", site.url, "build", "--detach")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"built\n", b"build has ended without a task\n")
    assert site.listed() == []


def test_cancelled_task_ends(site: Site) -> None:
    id = site.detach("dig", "until=end")
    site.out("task", id, "--cancel")
    site.until_cancelled()
    waiting = site.run("task", id, "--wait")

    assert waiting.returncode == 3
    assert waiting.stderr.endswith(b"mcptrio: the client has cancelled the task\n")
    assert [each["status"] for each in site.listed()] == ["cancelled"]


def test_failed_task_shows_its_error(site: Site) -> None:
    failed = site.run("task", site.detach("fail"), "--wait")

    assert (failed.returncode, failed.stderr) == (3, b"mcptrio: the server refused: no site (-32603)\n")


def test_question_of_a_task_is_asked_at_the_terminal(site: Site) -> None:
    with at_terminal("call", site.url, "ask", "--detach", cwd=site.folder, env=site.env) as terminal:
        assert terminal.end() == 0
    [task] = site.listed()
    with at_terminal("task", task["id"], "--wait", cwd=site.folder, env=site.env) as terminal:
        terminal.until("Who is there\\?")
        terminal.until("Answer: ")
        terminal.type("Ada\r")
        terminal.until("Hello, Ada")
        assert terminal.end() == 0


def test_list_is_private_and_bounded(site: Site) -> None:
    first = site.detach("dig", "until=end")
    kept = json.loads(site.list_file.read_text())
    many = {f"t{number}": {**kept[first], "id": f"t{number}", "started": number} for number in range(120)}
    site.list_file.write_text(json.dumps(many))
    last = site.detach("dig", "until=end")

    assert stat.S_IMODE(site.list_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(site.list_file.parent.stat().st_mode) == 0o700
    kept = json.loads(site.list_file.read_text())
    assert len(kept) == 100
    assert {"t119", last} <= kept.keys()
    assert "t0" not in kept


def test_unusable_list_does_not_lose_the_id(site: Site) -> None:
    site.list_file.parent.mkdir(parents=True, mode=0o700)
    site.list_file.write_text("[]")
    site.list_file.chmod(0o644)
    done = site.run("call", site.url, "dig", "until=end", "--detach")

    assert done.returncode == 0
    assert b"`mcptrio tasks` will not list it: " in done.stderr
    assert site.out("task", done.stdout.decode().strip(), site.url).startswith("working")


def test_unreachable_server_is_shown_as_the_state(tmp_path: Path) -> None:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        site = Site(f"http://127.0.0.1:{served.port}/mcp", tmp_path)
        id = site.detach("dig", "until=end")
    [row] = site.listed()

    assert (row["id"], row["status"]) == (id, "unreachable")
    assert "cannot connect" in row["message"]


def test_task_that_its_server_has_deleted_leaves_the_list(tmp_path: Path) -> None:
    """A plugin in the process of the command ends with it, and a relative path means the folder of the call."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "slow.py").write_text(PLUGIN.read_text())
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    result = run(
        "call", "--plugin", "slow.py", "dig", "until=end", "--detach", cwd=tmp_path / "site", stdin=b"", env=env
    )
    listed = [json.loads(run("tasks", "--json", cwd=tmp_path, env=env).stdout)["tasks"] for _ in range(2)]

    assert result.stderr == b"this server ends with its client, and usually its tasks too\n"
    assert [[(each["status"], each["server"]) for each in tasks] for tasks in listed] == [[("unknown", "slow.py")], []]


@pytest.mark.parametrize("id", ["no-such-task", "-no-such-task-at-all"])
def test_unlisted_task_needs_its_server(site: Site, id: str) -> None:
    unlisted = site.run("task", id)
    unknown = site.run("task", id, site.url)

    assert unlisted.returncode == 2
    assert f"no detached task `{id}`; name its server too: mcptrio task ID TARGET".encode() in unlisted.stderr
    assert unknown.returncode == 3
    assert b"no task with this id" in unknown.stderr


def test_contrary_options_are_refused(site: Site) -> None:
    assert b"expected --wait or --cancel, got both" in site.run("task", "x", "--wait", "--cancel").stderr


# Ctrl-C


def test_ctrl_c_asks_and_detaches(site: Site) -> None:
    with site.digging() as terminal:
        terminal.type("\x03")
        terminal.until("the tool runs as task ")
        terminal.until(r"\[d\]etach, \[c\]ancel or \[w\]ait\? ")
        terminal.type("x\rd\r")
        assert terminal.end() == 0
    [task] = site.listed()

    assert task["status"] == "working"
    assert f"\n{task['id']}\n" in terminal.shown


def test_ctrl_c_asks_and_waits_on(site: Site) -> None:
    with site.digging() as terminal:
        terminal.type("\x03")
        terminal.until("ait\\? ")
        terminal.type("wait\r")
        (site.folder / "end").touch()
        terminal.until("dug")
        assert terminal.end() == 0


@pytest.mark.parametrize("answer", ["c\r", "\x03", "\x04"])
def test_ctrl_c_asks_and_cancels(site: Site, answer: str) -> None:
    with site.digging() as terminal:
        terminal.type("\x03")
        terminal.until("ait\\? ")
        terminal.type(answer)
        terminal.until("mcptrio: interrupted")
        assert terminal.end() == 130
    site.until_cancelled()

    assert site.listed() == []


def test_ctrl_c_in_a_pipe_cancels(site: Site) -> None:
    with started("call", site.url, "dig", "until=end", cwd=site.folder) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"dig: stones (1 of 4)\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.read() == b"mcptrio: interrupted\n"
        assert process.wait(WAIT_TIMEOUT) == 130
    site.until_cancelled()


def test_ctrl_c_leaves_a_task_that_was_waited_for(site: Site) -> None:
    id = site.detach("dig", "until=end")
    with at_terminal("task", id, "--wait", cwd=site.folder, env=site.env) as terminal:
        terminal.until("dig  stones \\(1 of 4\\)")
        terminal.type("\x03")
        terminal.until("mcptrio: interrupted")
        assert terminal.end() == 130

    assert site.out("task", id).startswith("working")


def test_ctrl_c_in_the_shell_detaches_and_keeps_the_shell(site: Site) -> None:
    with at_terminal("shell", site.url, "--no-history", cwd=site.folder, env=site.env) as terminal:
        terminal.until("mcptrio> ")
        terminal.type("call dig until=end\r")
        terminal.until("dig  stones \\(1 of 4\\)")
        terminal.type("\x03")
        terminal.until("ait\\? ")
        terminal.type("d\r")
        terminal.until("mcptrio> ")
        terminal.type("quit\r")
        assert terminal.end() == 0

    assert [each["status"] for each in site.listed()] == ["working"]
