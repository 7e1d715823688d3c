"""Probes of files: the sandbox, large things, edits."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import trio

from mcptrio.client import Handlers
from plugin_probes.process import measured_call
from plugin_probes.trial import Answer, Probes, Trial

__all__ = ["FILES"]

_SECRET = "the secret of somebody else"


def command(trial: Trial) -> tuple[str, ...]:
    return serve(trial, trial.make_folder("files"))


def serve(trial: Trial, folder: Path) -> tuple[str, ...]:
    if trial.references is not None:
        return trial.references.of_node("server-filesystem", str(folder))
    return trial.ours({"folders": [str(folder)]})


FILES = Probes(
    "fs",
    "`@modelcontextprotocol/server-filesystem` 2026.8.31",
    command,
    {},
    (
        "The reference runs on Windows; ours needs Linux or macOS.",
        "The reference reads a file of any size at once, up to Node's limit; ours returns parts of at most "
        "36,000 bytes.",
        "The arguments `head` and `tail` are `start_line` and `end_line` in ours, `excludePatterns` is `exclude`, and "
        "the deprecated `read_file` is missing.",
        "Neither deletes files or copies them.",
    ),
    [],
)


@FILES("A symbolic link that leads out of the folder")
async def link_out(trial: Trial) -> str:
    folder, secret = _folder_and_secret(trial)
    (folder / "link").symlink_to(secret)
    async with trial.talk(serve(trial, folder)) as talk:
        return _gave(await talk.call("read_text_file", path=str(folder / "link")))


@FILES("A file that alternates between a file and such a link while it is read 1,000 times", is_measured=True)
async def swapped(trial: Trial) -> str:
    folder, secret = _folder_and_secret(trial)
    path, link, plain = folder / "file", folder / "link", folder / "plain"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            link.unlink(missing_ok=True)
            link.symlink_to(secret)
            os.replace(link, path)
            plain.write_text("harmless")
            os.replace(plain, path)

    plain.write_text("harmless")
    os.replace(plain, path)
    gave = 0
    swapper = threading.Thread(target=swap)
    async with trial.talk(serve(trial, folder)) as talk:
        swapper.start()
        try:
            with trio.move_on_after(10):
                for _ in range(1_000):
                    gave += _SECRET in (await talk.call("read_text_file", path=str(path))).text
        finally:
            done.set()
            swapper.join()
    return f"returned the secret {gave} times" if gave else "never returned the secret"


@FILES("The client announces another folder as its root")
async def other_root(trial: Trial) -> str:
    folder, secret = _folder_and_secret(trial)
    async with trial.talk(serve(trial, folder), handlers=Handlers(roots=[str(secret.parent)])) as talk:
        answer = Answer("no answer")
        with trio.move_on_after(3):
            # The reference sends a request after the handshake, and does not report when it has done so.
            while _SECRET not in (answer := await talk.call("read_text_file", path=str(secret))).text:  # noqa: ASYNC110
                await trio.sleep(0.1)
        return "replaces the folder of the command line: " + _gave(answer) if _SECRET in answer.text else _gave(answer)


@FILES("A named pipe without a writer")
async def pipe(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    os.mkfifo(folder / "pipe")
    async with trial.talk(serve(trial, folder)) as talk:
        return str(await talk.call("read_text_file", path=str(folder / "pipe"), timeout=3))


@FILES("A file of 100 MB, read completely", is_measured=True)
async def large(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    (folder / "large").write_text("0123456789abcde\n" * (100_000_000 // 16))
    tool = "fs_read_text_file" if trial.is_ours else "read_text_file"
    got = await measured_call(serve(trial, folder), tool, {"path": str(folder / "large")}, cwd=folder, env={})
    return f"an answer of {got.size / 1e6:,.1f} MB, memory up to {got.memory:,.0f} MiB"


@FILES("The directory tree of 20,000 files", is_measured=True)
async def tree(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    for part in range(100):
        below = folder / f"folder-{part}"
        below.mkdir()
        for number in range(200):
            (below / f"file-{number}.txt").touch()
    tool = "fs_directory_tree" if trial.is_ours else "directory_tree"
    got = await measured_call(serve(trial, folder), tool, {"path": str(folder)}, cwd=folder, env={})
    says = ", and states that it is incomplete" if b"not expanded" in got.answer or b"more" in got.answer else ""
    return f"an answer of {got.size / 1e6:,.2f} MB in {got.milliseconds:,.0f} ms{says}"


@FILES("Twenty concurrent edits of one file, each of a different line")
async def edits(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    path = folder / "list"
    path.write_text("".join(f"line {number}.\n" for number in range(20)))
    answers: list[Answer] = []
    async with trial.talk(serve(trial, folder)) as talk:

        async def edit(number: int) -> None:
            change = [_edit(trial, f"line {number}.", f"edited {number}.")]
            answers.append(await talk.call("edit_file", path=str(path), edits=change))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(edit, number)
    reported = sum(not answer.is_error for answer in answers)
    return f"{reported} reported as done, {path.read_text().count('edited')} in the file"


@FILES("An edit of a file with CRLF line endings")
async def line_ends(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    path = folder / "windows.txt"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    async with trial.talk(serve(trial, folder)) as talk:
        await talk.call("edit_file", path=str(path), edits=[_edit(trial, "two", "2")])
    return f"`{path.read_bytes()!r}`"


@FILES("An edit whose old text occurs twice")
async def ambiguous(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    path = folder / "twice.txt"
    path.write_text("same\nother\nsame\n")
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await talk.call("edit_file", path=str(path), edits=[_edit(trial, "same", "changed")])
    if answer.is_error:
        return str(answer)
    warns = "more than once" in answer.text or "2 " in answer.text
    says = "changes the first and reports two occurrences" if warns else "changes the first without a warning"
    return says if path.read_text().startswith("changed\nother\nsame") else "changes another"


@FILES("An edit whose old text differs in a word")
async def misremembered(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    path = folder / "code.py"
    path.write_text("def area(width, height):\n    return width * height\n")
    async with trial.talk(serve(trial, folder)) as talk:
        edits = [_edit(trial, "def area(width, length):", "def area():")]
        answer = await talk.call("edit_file", path=str(path), edits=edits)
    return f"refused, {'with' if 'height' in answer.text else 'without'} the line that is there"


@FILES("A search for a line in 200 files, with a context line, in three files of the type asked for")
async def contents(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    for number in range(200):
        (folder / f"{number}.{'py' if number < 3 else 'txt'}").write_text("first\nneedle\nlast\n")
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await talk.call("grep", path=str(folder), pattern="need.e", include=["*.py"], context=1)
    return "no tool" if answer.is_error else f"{answer.text.count('2:needle')} of 3 found"


@FILES("The path of a file with a typing mistake")
async def typo(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    (folder / "readme.md").touch()
    async with trial.talk(serve(trial, folder)) as talk:
        return str(await talk.call("read_text_file", path=str(folder / "raedme.md")))


@FILES(
    "Shortest of 50 times to list 200 files, to read the last 20 lines of 10 MB, to write, to edit", is_measured=True
)
async def times(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    for number in range(200):
        (folder / f"{number}.txt").touch()
    log, path = folder / "log", folder / "new.txt"
    log.write_text("0123456789abcde\n" * (10_000_000 // 16))
    tail = {"start_line": -20} if trial.is_ours else {"tail": 20}
    shortest = []
    async with trial.talk(serve(trial, folder)) as talk:
        for tool, arguments in (
            ("list_directory", {"path": str(folder)}),
            ("read_text_file", {"path": str(log), **tail}),
            ("write_file", {"path": str(path), "content": "one\ntwo\nthree\n" * 20}),
            (
                "edit_file",
                {"path": str(path), "edits": [_edit(trial, "one\ntwo\nthree\n" * 20, "one\ntwo\nthree\n" * 20)]},
            ),
        ):
            took = []
            for _ in range(50):
                began = trio.current_time()
                await talk.call(tool, **arguments)
                took.append(trio.current_time() - began)
            shortest.append(f"{min(took) * 1000:.1f}")
    return f"{', '.join(shortest)} ms"


@FILES("Moving a file onto another")
async def onto(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")
    async with trial.talk(serve(trial, folder)) as talk:
        return str(await talk.call("move_file", source=str(folder / "a"), destination=str(folder / "b")))


@FILES("The creation time of a file (`get_file_info`)")
async def created(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    (folder / "a").write_text("a")
    async with trial.talk(serve(trial, folder)) as talk:
        text = (await talk.call("get_file_info", path=str(folder / "a"))).text
    line = next((line for line in text.splitlines() if line.startswith("created")), "")
    return "unknown" if "unknown" in line or not line else "reported"


@FILES("A search for `+(a\\|b).txt`, an extended glob")
async def extended(trial: Trial) -> str:
    folder, _ = _folder_and_secret(trial)
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).touch()
    async with trial.talk(serve(trial, folder)) as talk:
        text = (await talk.call("search_files", path=str(folder), pattern="+(a|b).txt")).text
    return f"{sum(name in text for name in ('a.txt', 'b.txt'))} of 2 found"


def _folder_and_secret(trial: Trial) -> tuple[Path, Path]:
    secret = trial.make_folder("elsewhere") / "secret.txt"
    secret.write_text(_SECRET)
    return trial.make_folder("files"), secret


def _edit(trial: Trial, old: str, new: str) -> dict[str, str]:
    return {"old_text": old, "new_text": new} if trial.is_ours else {"oldText": old, "newText": new}


def _gave(answer: Answer) -> str:
    return "returned the secret" if _SECRET in answer.text else str(answer)
