"""Commands that run until they end or reach a limit."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_shell.config import Limits, Rule
from trio.testing import MockClock

from mcptrio import Client
from mcptrio.testing import Case, ServerSpec, open_served

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Run = Callable[..., Any]


def alive(pid: int) -> bool:
    try:
        return state_of(pid) != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def lines_of(path: Path) -> str:
    """Wait until the content of a file ends with a line end, and return it."""
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""


async def gone(pid: int) -> None:
    with trio.fail_after(30):
        while alive(pid):  # noqa: ASYNC110 - the system ends the process
            await trio.sleep(0.01)


async def written(path: Path) -> str:
    """Wait until a command has written a file, and return its content."""
    with trio.fail_after(30):
        while not (text := lines_of(path)):  # noqa: ASYNC110 - another process changes it
            await trio.sleep(0.01)
    return text


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_command_returns_its_exit_code_and_output(
    connected: Connect, run: Run, inside: Path, revision: str
) -> None:
    async with connected(revision=revision) as client:
        result = await run(client, "pwd; echo oops >&2; exit 3")

    assert (
        result["process"] | {"status": "exited", "exit_code": 3, "signal": None, "cwd": str(inside)}
        == result["process"]
    )
    assert result["stdout"] == {"text": f"{inside}\n", "bytes": len(str(inside)) + 1} | NOTHING_OMITTED
    assert result["stderr"] == {"text": "oops\n", "bytes": 5} | NOTHING_OMITTED
    assert not result["truncated"]


NOTHING_OMITTED = {"omitted_bytes": 0, "omitted_lines": 0}


async def test_arguments_reach_the_program_unchanged(connected: Connect) -> None:
    words = ["a b", "", "$HOME", "*", "`id`", "é\n", "';\""]
    async with connected(allow=(Rule(argv=("printf", "<%s>"), rest=("*",)),)) as client:
        result = await client.call_tool("run_command", {"argv": ["printf", "<%s>", *words]})

    assert result.structured_content["stdout"]["text"] == "".join(f"<{word}>" for word in words)


async def test_start_failure_is_returned_as_a_tool_error(connected: Connect, outside: Path) -> None:
    (outside / "broken").write_text("#!/none/such\n")
    (outside / "broken").chmod(0o755)
    async with connected(allow=(Rule(argv=("broken",)),), path=(outside,)) as client:
        for tool in ("run_command", "start_process"):
            result = await client.call_tool(tool, {"argv": ["broken"]})
            assert result.is_error
            assert result.content[0].text == "cannot start broken: No such file or directory"
            assert (await client.call_tool("run_command", {"argv": ["sh"]})).is_error
        listed = await client.call_tool("list_processes")
        assert listed.structured_content == {"items": [], "truncated": False}


async def test_input_can_be_read_or_ignored(connected: Connect, run: Run) -> None:
    async with connected(max_input_bytes=300_000) as client:
        done = await run(client, "wc -c", stdin="x" * 300_000)
        assert done["stdout"]["text"].strip() == "300000"
        assert (await run(client, "wc -c"))["stdout"]["text"].strip() == "0"
        assert (await run(client, "exit 0", stdin="x" * 300_000))["process"]["exit_code"] == 0
        result = await client.call_tool("run_command", {"argv": ["sh", "-c", "cat"], "stdin": "x" * 300_001})
        assert result.is_error
        assert "at most 300000 bytes" in result.content[0].text


async def test_environment_is_that_of_the_settings(
    connected: Connect, run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hush-hush")
    monkeypatch.setenv("TZ", "UTC")
    async with connected(inherit=("TZ",), environment={"A": "1"}, client_environment=("B",)) as client:
        result = await run(client, "env; tr '\\0' '\\n' < /proc/$PPID/environ", env={"B": "2"})

    lines = set(result["stdout"]["text"].splitlines())
    assert lines - {"_=/usr/bin/env", "OLDPWD="} <= {"A=1", "B=2", "TZ=UTC", f"PWD={inside}", *PATHS}
    assert "hush-hush" not in result["stdout"]["text"]


PATHS = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    *(f"LD_LIBRARY_PATH={path}" for path in [os.environ.get("LD_LIBRARY_PATH")]),
}


async def test_streams_can_be_merged_in_the_order_of_writing(connected: Connect, run: Run) -> None:
    async with connected() as client:
        result = await run(client, "echo 1; echo 2 >&2; echo 3", merge_stderr=True)

    assert result["stdout"]["text"] == "1\n2\n3\n"
    assert result["stderr"]["bytes"] == 0


async def test_progress_contains_the_last_line(connected: Connect) -> None:
    async with connected(progress_interval=0.05) as client:
        async with client.start_tool("run_command", {"argv": ["sh", "-c", "echo one; sleep 60"]}) as running:
            async for progress in running:
                assert (progress.progress, progress.message) == (4, "one")
                break


async def test_long_output_keeps_its_beginning_and_end(connected: Connect, run: Run) -> None:
    async with connected(result_bytes=1024, log_bytes=4096) as client:
        result = await run(client, "seq 1 20000")
        out = result["stdout"]
        text = "".join(f"{number}\n" for number in range(1, 20001))
        head, note, tail = (
            out["text"].partition("[")[0],
            out["text"].split("\n[")[1].split("]\n")[0],
            out["text"].rpartition("]\n")[2],
        )

        assert result["truncated"]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert 900 < len(head) + len(tail) <= 1024
        assert out["omitted_bytes"] == len(text) - len(head) - len(tail)
        assert out["omitted_lines"] == 20000 - head.count("\n") - tail.count("\n")
        assert note.startswith(f"{out['omitted_bytes']} bytes with {out['omitted_lines']} line ends omitted")

        pages, start, skipped = "", 0, 0
        while True:
            page = await client.call_tool("read_output", {"id": result["process"]["id"], "offset": start})
            found = page.structured_content
            pages += found["text"]
            skipped += found["skipped_bytes"]
            assert found["total"] == len(text)
            start = found["next_offset"]
            if not found["truncated"]:
                break
        assert len(pages) + skipped == len(text)
        assert 4096 <= len(pages) <= 6144
        assert text.endswith(pages[2048:])
        assert text.startswith(pages[:2048])


async def test_output_flood_ends_the_command_in_bounded_memory(connected: Connect, run: Run) -> None:
    async with connected(max_output_bytes=2**20, log_bytes=4096, result_bytes=1024) as client:
        result = await run(client, "yes flood")

    assert result["process"]["status"] == "too_much_output"
    assert result["process"]["signal"] == "SIGTERM"
    assert result["stdout"]["bytes"] >= 2**20
    assert len(result["stdout"]["text"]) < 1200


@pytest.mark.parametrize(
    ("script", "number"),
    [
        ("read go; echo a; echo > ready; exec sleep 60", "SIGTERM"),
        ("trap '' TERM HUP INT; read go; echo a; echo > ready; while :; do sleep 60; done", "SIGKILL"),
    ],
)
async def test_command_that_ignores_sigterm_is_killed_at_its_timeout(
    connected: Connect, run: Run, inside: Path, timed: MockClock, script: str, number: str
) -> None:
    async with connected(grace=0.2) as client, trio.open_nursery() as nursery:

        async def late() -> None:
            await written(inside / "ready")
            timed.jump(30)

        nursery.start_soon(late)
        # The input arrives after the time has started.
        result = await run(client, script, stdin="go\n", timeout=30)

        assert result["process"]["status"] == "timed_out"
        assert result["process"]["signal"] == number
        assert result["stdout"]["text"] == "a\n"


async def test_requested_timeout_is_limited(connected: Connect, run: Run) -> None:
    async with connected(max_timeout=0.2, grace=0) as client:
        assert (await run(client, "sleep 60", timeout=1000))["process"]["status"] == "timed_out"
    async with connected(default_timeout=0.2, grace=0) as client:
        assert (await run(client, "sleep 60"))["process"]["status"] == "timed_out"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_cancelled_call_ends_all_its_processes(connected: Connect, inside: Path, revision: str) -> None:
    script = (
        "echo $$ > first; (trap '' TERM; sleep 60 & echo $! > second; wait) & setsid sh -c 'echo $$ > third; sleep 60'"
    )
    async with connected(revision=revision, grace=0.2) as client:
        async with client.start_tool("run_command", {"argv": ["sh", "-c", script]}):
            pids = [int(await written(inside / name)) for name in ("first", "second", "third")]
            assert all(alive(pid) for pid in pids)

        for pid in pids:
            await gone(pid)


async def test_background_processes_and_daemons_end_with_the_command(
    connected: Connect, run: Run, inside: Path
) -> None:
    script = """
    sleep 60 &
    (setsid sh -c 'echo $$ > daemon; trap "" TERM HUP; while :; do sleep 60; done' > /dev/null 2>&1 < /dev/null &)
    while [ ! -s daemon ]; do :; done
    """
    async with connected(grace=0.2) as client:
        result = await run(client, script)

    assert result["process"]["status"] == "exited"
    assert result["process"]["exit_code"] == 0
    assert result["process"]["left_behind"] >= 2
    assert not alive(int((inside / "daemon").read_text()))


async def test_command_that_kills_its_warden_is_ended(connected: Connect, run: Run, inside: Path) -> None:
    async with connected(grace=0.2) as client:
        result = await run(client, "sleep 60 & echo $$ $! > pids; kill -KILL $PPID; sleep 60")

    assert result["process"]["status"] == "lost"
    for pid in (inside / "pids").read_text().split():
        await gone(int(pid))


async def test_limits_apply_from_the_first_instruction(connected: Connect, run: Run) -> None:
    limits = Limits(cpu_seconds=7, memory_bytes=2**30, file_bytes=2**20, open_files=40)
    async with connected(limits=limits) as client:
        result = await run(client, "ulimit -t; ulimit -v; ulimit -f; ulimit -n; ulimit -c; ulimit -Hn")
        grown = await run(client, "trap '' XFSZ; head -c 2000000 /dev/zero > big; wc -c < big")

    assert result["stdout"]["text"].split() == ["7", str(2**20), str(2**20 // 512), "40", "0", "40"]
    assert grown["stdout"]["text"].strip() == str(2**20)


async def test_processor_time_and_memory_are_limited(connected: Connect, run: Run) -> None:
    limits = Limits(cpu_seconds=1, memory_bytes=2**28)
    async with connected(limits=limits, result_bytes=4096) as client:
        spun = await run(client, "while :; do :; done")
        grown = await run(client, "head -c 1000000000 /dev/zero | tail -c 900000000 | wc -c")

    assert spun["process"]["signal"] == "SIGXCPU"
    assert spun["process"]["cpu_seconds"] >= 0.5  # the system measures it in other units than it enforces it
    assert grown["stdout"]["text"].strip() == "0"


async def test_command_that_starts_too_many_processes_is_killed(connected: Connect, run: Run) -> None:
    """A fork bomb of forty processes."""
    script = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; wait"
    async with connected(limits=Limits(processes=10)) as client:
        result = await run(client, script)

    # If RLIMIT_NPROC applies (it does not for root), the shell itself fails.
    assert result["process"]["status"] in ("too_many_processes", "exited")
    assert result["process"]["exit_code"] != 0


async def test_command_gains_no_privileges(connected: Connect, run: Run) -> None:
    for wanted in (True, False):
        async with connected(no_new_privileges=wanted) as client:
            result = await run(client, "grep NoNewPrivs /proc/self/status")
        assert result["stdout"]["text"].split() == ["NoNewPrivs:", str(int(wanted))]


async def test_signals_and_descriptors_have_their_defaults(connected: Connect, run: Run) -> None:
    async with connected() as client:
        result = await run(
            client, "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; yes | head -1"
        )

    ignored, blocked = (int(line.split()[1], 16) for line in result["stdout"]["text"].splitlines()[:2])
    # 32 and 33 are the C library's, which blocks them briefly while threads start and end; no program can use them.
    own = ~(0b11 << 31)
    assert (ignored & own, blocked & own) == (0, 0)
    assert result["stdout"]["text"].splitlines()[2].split()[:3] == ["0", "1", "2"]
    assert len(result["stdout"]["text"].splitlines()[2].split()) <= 5


async def test_commands_end_when_the_server_is_killed(inside: Path) -> None:
    """The server is a separate process over stdio."""
    plugin = inside.parent / "plugin.py"
    plugin.write_text(
        "from pathlib import Path\n"
        "from mcptrio import hookimpl\n"
        "from mcptrio_shell import Config, Rule, Shell\n"
        "@hookimpl\n"
        "def setup(server):\n"
        f"    server.add(Shell(Config(folders=(Path({str(inside)!r}),), grace=0.2,\n"
        "        allow=(Rule(argv=('sh', '-c'), rest=('*',), shell=True),))))\n"
    )
    script = "echo $PPID $$ > pids; setsid sh -c 'trap \"\" TERM; echo $$ > daemon; sleep 60; sleep 60'"
    spec = ServerSpec(plugins=[plugin])
    with trio.fail_after(120):
        async with open_served(spec, Case(revision="2025-11-25", transport="stdio")) as served:
            async with served.connect() as client:
                await client.call_tool("start_process", {"argv": ["sh", "-c", script]})
                warden, shell = map(int, (await written(inside / "pids")).split())
                daemon = int(await written(inside / "daemon"))
                server = parent_of(warden)
                os.kill(server, 9)
                for pid in (shell, daemon, warden):
                    await gone(pid)


async def test_command_that_stops_its_warden_is_ended(
    connected: Connect, run: Run, inside: Path, timed: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcptrio_shell.process.KILL_TIMEOUT", 1.0)  # the second command runs until its timeout
    async with connected(grace=0.2, max_running=1) as client:
        # The other command stops it.
        for rest in ("kill -STOP $PPID; exec sleep 1000", "while :; do kill -STOP $PPID; done"):
            async with trio.open_nursery() as nursery:

                async def late() -> None:
                    warden = parent_of(int(await written(inside / "pid")))
                    while state_of(warden) != "T":  # noqa: ASYNC110 - a command stops the process
                        await trio.sleep(0.01)
                    timed.jump(20)

                nursery.start_soon(late)
                # The input arrives after the warden has reported the start; stopped before, it could not report.
                result = await run(client, f"read go; echo $$ > pid; {rest}", stdin="go\n", timeout=20)
            assert result["process"]["status"] == "timed_out"
            await gone(int((inside / "pid").read_text()))
            (inside / "pid").unlink()
        # The place of the command is free again.
        assert (await run(client, "echo next"))["stdout"]["text"] == "next\n"


async def test_texts_are_the_output_and_one_line(connected: Connect, inside: Path) -> None:
    async with connected(result_bytes=1024) as client:

        async def text(tool: str, **arguments: Any) -> str:
            return (await client.call_tool(tool, arguments)).content[0].text

        async def run(script: str) -> str:
            return await text("run_command", argv=["sh", "-c", script])

        assert await run("echo a; echo b") == "a\nb\n[exit 0]"
        assert await run("printf a; echo b >&2; exit 3") == "a\n[stderr]\nb\n[exit 3]"
        assert await run("kill -9 $$") == "[ended by SIGKILL]"
        cut = await run("seq 1 10000")
        assert cut.startswith("1\n2\n")
        assert len(cut) < 1200
        id = cut.rpartition("[exit 0; id=")[2].rstrip("]")
        page = await text("read_output", id=id, offset=0)
        assert page.endswith("\n[exit 0; more follows: pass offset=1024]")
        assert (await text("list_processes")).startswith(f"id={id} exit 0: sh -c ")
        assert await text("list_allowed_commands") == (
            f"sh -c [*]\nfolders: {inside}\n"
            "timeouts: 60 s, at most 600 s, in the background 3600 s; 8 commands at a time"
        )


async def test_definitions_take_few_tokens(connected: Connect, check_tokens: Any) -> None:
    async with connected() as client:
        await check_tokens(client, 769)
