"""Checks one plugin in its own process: ``python -m mcptrio.cli.server.plugin_check REQUEST``.

:mod:`mcptrio.cli.plugins.doctor` starts it, and survives its crash. REQUEST is a JSON object. The output is lines of
JSON: the stages (``stage``), each before it begins, and then the report.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import distribution
from inspect import ismodule
from pathlib import Path
from pkgutil import walk_packages
from time import perf_counter
from typing import Any

import trio

from mcptrio.cli.server.example_calls import ExampleCalls, call_examples
from mcptrio.cli.server.log_output import log_to_stderr
from mcptrio.cli.server.own_issuers import mismatches
from mcptrio.cli.server.plugin_server import ChosenPlugins, make_server
from mcptrio.errors import ConfigError, PluginError
from mcptrio.ground.guarded import Failure, run_guarded_sync
from mcptrio.plugins.discovery import installed_entry_points
from mcptrio.plugins.manager import SLOW_IMPORT
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.portability import explained_parameters, portability_warnings
from mcptrio.plugins.references import reference_warnings
from mcptrio.plugins.tokens import tokens_by_tool
from mcptrio.server import Server

__all__ = ["encode_request", "examine"]

_MAX_SENTENCES = 100
"""Findings of one plugin's own doctor."""
_NEVER_IMPORTED = {"__main__", "tests", "conftest"}
"""Modules of a package that its plugin does not use."""
_MAX_SENTENCE_CHARS = 1000
"""Characters of a finding."""


def encode_request(name: str, chosen: ChosenPlugins) -> str:
    """Return the REQUEST for the check of a plugin with this name or file.

    Args:
        chosen: The other options of the command line.
    """
    return json.dumps({"plugins": [name], "config": chosen.config, "profile": chosen.profile}, default=str)


def examine(text: str, send: Any) -> None:
    """Check one plugin and report the result.

    Args:
        text: The REQUEST that the parent process has passed.
        send: A function called with each line of the output, as a value.
    """
    request: dict[str, Any] = json.loads(text)
    request["config"] = Path(request["config"]) if request["config"] is not None else None
    chosen = ChosenPlugins(**request)
    seconds: dict[str, float] = {}
    send({"stage": "importing it"})
    for name in chosen.plugins:
        for point in installed_entry_points().get(name, ()):
            started = perf_counter()
            # An error is reported below, when the server loads the plugin again.
            run_guarded_sync(point.load)
            seconds[name] = seconds.get(name, 0.0) + perf_counter() - started
    send({"stage": "reading its settings and registering what it has"})
    try:
        config = chosen.read()
        # This process is already isolated.
        server = make_server(config, chosen.select(config), {"no_isolation": True})
    except (ConfigError, PluginError) as error:
        send({"problem": str(error)})
        return
    send({"stage": "importing all its modules"})
    missing = {plugin.name: list(_missing_modules(plugin)) for plugin in server.plugins.plugins.values()}
    send({"stage": "calling the examples of its tools"})
    answers = run_guarded_sync(lambda: trio.run(call_examples, config, chosen.select(config)))
    calls = ExampleCalls() if isinstance(answers, Failure) else answers.value
    if isinstance(answers, Failure):
        calls.warn(chosen.plugins[0], f"its examples could not be called: {answers.error}"[:_MAX_SENTENCE_CHARS])
    send({"stage": "its own doctor"})
    reports = []
    for plugin in server.plugins.plugins.values():
        if plugin.state != "disabled":
            report = _make_report(server, plugin)
            report["problems"] += missing[plugin.name]
            report["problems"] += map(str, mismatches(config, server, plugin))
            report["warnings"] += calls.warnings.get(plugin.name, [])
            report["called"] = calls.called.get(plugin.name, [])
            # A second plugin of the same name is called "NAME #2".
            name = plugin.name.partition(" #")[0]
            # The server imported the plugin after this function, so its own measurement is too short.
            report["import_seconds"] = seconds.get(name, report["import_seconds"])
            if (report["import_seconds"] or 0) > SLOW_IMPORT:
                report["warnings"].append(f"importing it took {report['import_seconds']:.1f} s")
            reports.append(report)
    send({"report": reports})


def _make_report(server: Server, plugin: Plugin) -> dict[str, Any]:
    tools = [each.tool for each in server.catalog.tools.registry if each.owner is plugin]
    # The caller adds this warning with its own measurement.
    warnings = [each for each in plugin.warnings if not each.startswith("importing it took ")]
    warnings += [f"tool {name} is withheld: {reason}" for name, reason in plugin.withheld.items()]
    explained = explained_parameters(tools)
    warnings += [warning for tool in tools for warning in portability_warnings(tool, explained)]
    if plugin.state != "quarantined":
        warnings += reference_warnings(server.catalog, plugin)
    warnings += _missing_programs(plugin)
    offers = {kind: list(names) for kind, names in plugin.offers.items()}
    tokens = tokens_by_tool(server.catalog, plugin.name)
    problems = list(_problems(server, plugin))
    return {
        "name": plugin.name,
        "version": plugin.version,
        "distribution": plugin.distribution,
        "state": plugin.state,
        "import_seconds": plugin.import_seconds,
        "offers": offers,
        "tokens": tokens,
        "may_be_renamed": plugin.prefers_no_prefix,
        "problems": problems,
        "warnings": list(dict.fromkeys(warnings)),
    }


def _problems(server: Server, plugin: Plugin) -> Iterator[str]:
    if plugin.state != "quarantined":
        try:
            for result in server.plugins.call(plugin, "doctor"):
                # A hook written as a generator runs its code only when it is iterated.
                outcome = run_guarded_sync(lambda result=result: _read_sentences(result))  # type: ignore[misc]
                if isinstance(outcome, Failure):
                    yield f"doctor failed: {str(outcome.error) or type(outcome.error).__name__}"
                else:
                    yield from outcome.value
        except PluginError:
            pass  # plugin.failure contains the reason
    if plugin.failure:
        yield plugin.failure


def _read_sentences(result: Any) -> list[str]:
    sentences = []
    for sentence in [result] if isinstance(result, str) else result:
        if not isinstance(sentence, str):
            raise TypeError(f"expected sentences, got {type(sentence).__name__}")
        sentences.append(sentence[:_MAX_SENTENCE_CHARS])
        if len(sentences) == _MAX_SENTENCES:
            break
    return sentences


def _missing_modules(plugin: Plugin) -> Iterator[str]:
    """Yield the modules of a plugin's package that cannot be imported.

    A plugin may import some of its modules at the first call, and would fail only then if a library is missing.
    """
    package = plugin.object
    if plugin.state == "disabled" or not ismodule(package) or not hasattr(package, "__path__"):
        return
    # Import errors are reported below; walk_packages would raise some of them.
    for module in walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda _: None):
        if not _NEVER_IMPORTED & set(module.name.split(".")):
            outcome = run_guarded_sync(import_module, module.name)
            if isinstance(outcome, Failure):
                error = outcome.error
                yield f"its module {module.name} cannot be imported: {type(error).__name__}: {error}"


def _missing_programs(plugin: Plugin) -> Iterator[str]:
    """Yield the programs that the plugin's distribution requires and PATH does not contain.

    Source: PyPA, core metadata, "Requires-External".
    """
    if plugin.distribution is not None:
        for needed in distribution(plugin.distribution).metadata.get_all("Requires-External") or ():
            program = str(needed).partition(" ")[0].partition(";")[0].strip()
            if program and shutil.which(program) is None:
                yield f"it needs the program {program}, which is not in PATH"


def _main() -> None:
    # Output of the plugin and its children must not be part of the report.
    stdout = os.dup(1)
    os.dup2(2, 1)
    log_to_stderr("critical", "text")

    def send(value: Mapping[str, Any]) -> None:
        # A pipe may accept only a part of the data.
        data = json.dumps(value).encode() + b"\n"
        while data:
            data = data[os.write(stdout, data) :]

    examine(sys.argv[1], send)


if __name__ == "__main__":
    _main()
