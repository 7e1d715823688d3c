"""Selects the tools, resources and prompts for a configuration.

The hook ``setup`` registers them. Forbidden tools are left out, so that clients do not see them.
"""

from __future__ import annotations

from .access import GitAccess
from .branch_tools import BranchTools
from .commit_tools import CommitTools
from .config import Config
from .inspection import GitInspection
from .prompts import GitPrompts
from .read_tools import GitReadTools
from .replay_tools import ReplayTools
from .resources import RepositoryResources

__all__ = ["objects_of"]


def objects_of(config: Config) -> tuple[object, ...]:
    """Return the objects whose methods are the tools, resources, prompts and completions."""
    access = GitAccess(config)
    objects: list[object] = [
        GitReadTools(access),
        GitInspection(access),
        RepositoryResources(access),
        GitPrompts(access),
    ]
    if config.allow_write:
        objects += [CommitTools(access), BranchTools(access), ReplayTools(access)]
    if config.allow_network:
        objects += _network_objects(access)
    return tuple(objects)


def _network_objects(access: GitAccess) -> list[object]:
    # Imported here, because most servers do not use remotes and should start fast.
    from .clone_tool import CloneTool
    from .remotes import FetchTools, PullTool

    objects: list[object] = [FetchTools(access)]
    if access.config.allow_write:
        objects.append(PullTool(access))
        if access.config.clone_folder is not None:
            objects.append(CloneTool(access))
    return objects
