"""The section "Two replicas in ten minutes" of docs/replicas.md works word for word, except for the ports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.processes import environment, held_port
from tests.replicas.processes import program_path
from tests.test_readme import Block, blocks_of

__all__: list[str] = []

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "replicas.md"
SECTION: Final = "Two replicas in ten minutes"
_WAIT_TIMEOUT: Final = 60.0
_AROUND: Final = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/mcptrio.conf;
}}
"""
"""What every nginx has around the files of conf.d."""


def section() -> list[Block]:
    text = PAGE.read_text("utf-8")
    (found,) = re.findall(rf"^## {SECTION}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    return list(blocks_of(found, SECTION))


def eventually(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_TIMEOUT
    while not is_so():
        assert time.monotonic() < deadline, f"not within {_WAIT_TIMEOUT:g} s: {what}"
        time.sleep(0.05)


def test_two_replicas_in_ten_minutes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ports = {port: str(stack.enter_context(held_port())) for port in ("6379", "8001", "8002", "8080")}

        def here(text: str) -> str:
            return re.sub("|".join(ports), lambda found: ports[found[0]], text)

        found = {
            language: [here(block.text) for block in section() if block.language == language]
            for language in ("sh", "python", "toml", "nginx")
        }
        (redis,), (make_key, check), serve, (call,) = (block.splitlines() for block in found["sh"])
        (tool,), (configuration,), (proxy,) = found["python"], found["toml"], found["nginx"]
        (tmp_path / "served.py").write_text(tool)
        (tmp_path / "mcptrio.toml").write_text(configuration)
        (tmp_path / "mcptrio.conf").write_text(proxy)
        user = "user root;" if os.geteuid() == 0 else ""
        (tmp_path / "nginx.conf").write_text(_AROUND.format(folder=tmp_path, user=user))
        env = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin")

        def start(command: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((tmp_path / "log").open("ab"))
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"], cwd=tmp_path, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
            stack.callback(end, process)
            return process

        def run(command: str) -> str:
            return subprocess.run(
                ["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
            ).stdout

        def answers(command: str, number: int) -> bool:
            return run(command).strip() == str(number)

        program_path("redis-server"), program_path("nginx")
        start(redis)
        run(make_key)
        eventually(lambda: "problem" not in run(check), f"{check}\n{run(check)}")
        replicas = [start(command) for command in serve]
        start(f"nginx -p {tmp_path} -c {tmp_path}/nginx.conf")
        numbers = {str(process.pid) for process in replicas}
        for number, command in enumerate(serve):
            direct = call.replace(ports["8080"], re.findall(r"--port (\d+)", command)[0])
            eventually(partial(answers, direct, replicas[number].pid), direct)
        eventually(lambda: run(call).strip() in numbers, (tmp_path / "log").read_text())

        end(replicas[0])

        assert [run(call).strip() for _ in range(3)] == [str(replicas[1].pid)] * 3


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.mark.parametrize("directive", ["proxy_buffering off", "max_fails=0", "proxy_next_upstream error timeout"])
def test_documented_proxy_is_the_one_of_the_trials(directive: str) -> None:
    from_trials = (Path(__file__).parent / "processes.py").read_text("utf-8")

    assert directive in from_trials
