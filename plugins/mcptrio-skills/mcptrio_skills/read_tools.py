"""The tools that read skills, for clients without the skills extension.

Most hosts do not know the extension, and many do not allow their models to read resources.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from attrs import frozen
from msgspec import Meta

from mcptrio import ResourceNotFound, ToolError, tool
from mcptrio.types import BlobResourceContents, ReadResourceResult

from .catalogue import Catalogue, Skill
from .index import SkillIndex
from .uris import MANIFEST

__all__ = ["SkillReadTools"]

_MAX_CHARS = 36_000
"""Maximum characters of one result, about 9,000 tokens."""
_MAX_DESCRIPTION = 300
_MAX_NAMES = 20
"""Maximum names in a message."""

_Name = Annotated[str, "From {tool:list_skills}."]


@frozen(eq=False)
class SkillReadTools:
    """The tools for the skills of one configuration.

    Args:
        index: The skills.
        read: Reads a served file by its path.
    """

    _index: SkillIndex
    _read: Callable[[str], Awaitable[ReadResourceResult]]

    @tool(title="List Skills", read_only=True, examples=[{}], open_world=False)
    async def list_skills(self, offset: Annotated[int, Meta(ge=0)] = 0) -> str:
        """List the skills (instructions for certain tasks) with their descriptions."""
        skills = [*(await self._index.refresh()).skills.values()]
        lines: list[str] = []
        size = 0
        for skill in skills[offset:]:
            line = f"{skill.path}: {_description_of(skill)}"
            size += len(line) + 1
            if size > _MAX_CHARS and lines:
                end = offset + len(lines)
                lines.append(f"[skills {offset} to {end} of {len(skills)}; continue with offset={end}]")
                break
            lines.append(line)
        return "\n".join(lines) or "no skills"

    @tool(title="Read Skill", read_only=True, open_world=False)
    async def read_skill(self, name: _Name, offset: Annotated[int, Meta(ge=0)] = 0) -> str:
        """Read the instructions of a skill and the names of its files. Do this before a task that it covers."""
        catalogue = await self._index.refresh()
        skill = _find(catalogue, name)
        text = _page(await self._text(skill.manifest.path), offset)
        begin = len(skill.path) + 1
        others = [file.path[begin:] for file in skill.files if file.path[begin:] != MANIFEST]
        if offset or not others:
            return text
        more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
        return f"{text.rstrip(chr(10))}\n[files: {', '.join(others[:_MAX_NAMES])}{more}]"

    @tool(title="Read Skill File", read_only=True, open_world=False)
    async def read_skill_file(
        self,
        name: _Name,
        path: Annotated[str, "Relative to the skill, as its instructions say."],
        offset: Annotated[int, Meta(ge=0)] = 0,
    ) -> str:
        """Read a text file of a skill."""
        skill = _find(await self._index.refresh(), name)
        identifier = f"{skill.path}/{path.removeprefix('./')}"
        if identifier not in {file.path for file in skill.files}:
            names = ", ".join(file.path[len(skill.path) + 1 :] for file in skill.files[:_MAX_NAMES])
            raise ToolError(f"expected a file of the skill {skill.path} such as {names}; got {path[:200]!r} at `path`")
        return _page(await self._text(identifier), offset)

    async def _text(self, path: str) -> str:
        try:
            [contents] = (await self._read(path)).contents
        except ResourceNotFound as error:
            raise ToolError(f"{path} cannot be read any more") from error
        if isinstance(contents, BlobResourceContents):
            size = len(contents.blob) * 3 // 4
            raise ToolError(f"expected a text file, got {contents.mime_type} of about {size} bytes: {path}")
        return contents.text


def _find(catalogue: Catalogue, name: str) -> Skill:
    """Return a skill by its path or URI, or by its name if the name is unique."""
    identifier = name.strip("/").removesuffix(f"/{MANIFEST}")
    matches = [
        each for each in catalogue.skills.values() if identifier in (each.path, each.uri.removesuffix(f"/{MANIFEST}"))
    ]
    matches = matches or [each for each in catalogue.skills.values() if each.path.rpartition("/")[2] == identifier]
    if len(matches) == 1:
        return matches[0]
    paths = [each.path for each in matches or catalogue.skills.values()]
    more = f" and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else ""
    if not paths:
        raise ToolError("no skill is served; the operator must add folders with skills")
    raise ToolError(f"expected one of {', '.join(paths[:_MAX_NAMES])}{more} at `name`, got {name[:200]!r}")


def _description_of(skill: Skill) -> str:
    description = " ".join(str(skill.frontmatter["description"]).split())
    return description if len(description) <= _MAX_DESCRIPTION else f"{description[: _MAX_DESCRIPTION - 1]}…"


def _page(text: str, offset: int) -> str:
    page = text[offset : offset + _MAX_CHARS]
    end = offset + len(page)
    if end >= len(text):
        return page or f"[no more text, the file has {len(text)} characters]"
    return f"{page}\n[characters {offset} to {end} of {len(text)}; continue with offset={end}]"
