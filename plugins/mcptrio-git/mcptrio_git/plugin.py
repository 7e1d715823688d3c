"""The tools, resources and prompts for a configuration.

The hooks call it. Forbidden ones are not registered, so a client does not see them.
"""

from __future__ import annotations

from .access import GitAccess
from .branching import Branching
from .config import Config
from .inspection import GitInspection
from .prompts import GitPrompts
from .reading import GitReading
from .replaying import Replaying
from .resources import RepositoryResources
from .staging import Staging

__all__ = ["objects_of"]


def objects_of(config: Config) -> tuple[object, ...]:
    """The objects whose methods are the tools, resources, prompts and completions."""
    access = GitAccess(config)
    objects: list[object] = [GitReading(access), GitInspection(access), RepositoryResources(access), GitPrompts(access)]
    if config.allow_write:
        objects += [Staging(access), Branching(access), Replaying(access)]
    if config.allow_network:
        objects += _talking(access)
    return tuple(objects)


def _talking(access: GitAccess) -> list[object]:
    # Imported here, since most servers do not talk to remotes and all of them start.
    from .cloning import Cloning
    from .remotes import Fetching, Pulling

    objects: list[object] = [Fetching(access)]
    if access.config.allow_write:
        objects.append(Pulling(access))
        if access.config.clone_folder is not None:
            objects.append(Cloning(access))
    return objects
