"""Finds texts and completions of a plugin that refer to an entry that it does not have.

``mcptrio plugins doctor`` uses this. A server does not check it, because a lifespan may add entries later.
"""

from __future__ import annotations

from collections.abc import Iterator

from mcptrio.capabilities.catalog import Catalog
from mcptrio.ground.suggestions import suggest
from mcptrio.plugins.plugin import Plugin

__all__ = ["reference_warnings"]


def reference_warnings(catalog: Catalog, plugin: Plugin) -> Iterator[str]:
    """Yield a sentence for each ``{tool:NAME}`` and each completion whose target does not exist."""
    offered = plugin.offers.get("tools", [])
    for tool, name in plugin.named_tools.items():
        if name not in offered and name not in plugin.withheld:
            known = [each.removeprefix(f"{plugin.prefix}_") for each in offered]
            yield f"a description contains {{tool:{tool}}}, but the plugin has no tool `{tool}`{suggest(tool, known)}"
    prompts = {each.key: [argument.name for argument in each.prompt.arguments] for each in catalog.prompts.registry}
    templates = {
        each.key: list(each.template.variables) for each in catalog.resources.templates if each.template is not None
    }
    for entry in catalog.completions.registry:
        if entry.owner is plugin:
            of, _, rest = entry.key.partition(" ")
            name, _, argument = rest.rpartition(" ")
            kind, targets, part = (
                ("prompt", prompts, "argument") if of == "prompt" else ("template", templates, "variable")
            )
            if name not in targets:
                yield f"a completion is for the {kind} `{name}`, which does not exist{suggest(name, list(targets))}"
            elif argument not in targets[name]:
                problem = f"{kind} `{name}` has no {part} `{argument}`{suggest(argument, targets[name])}"
                yield f"a completion can never be requested: {problem}"
