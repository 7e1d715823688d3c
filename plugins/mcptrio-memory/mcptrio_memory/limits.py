"""Checks texts and their number against the operator's limits.

The tools that write and the import call it before they write. An error names the expected value, the actual one and the
argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from mcptrio.errors import ToolError

from .config import Config
from .model import NewEntity, NewObservations, Relation

__all__ = ["MemoryLimits"]


@frozen(eq=False)
class MemoryLimits:
    """The operator's limits for texts and numbers of items."""

    config: Config

    def check_count(self, items: Sequence[Any], where: str) -> None:
        """Check the number of items in one call.

        Raises:
            ToolError: There are too many items for one call.
        """
        if len(items) > self.config.max_items:
            raise ToolError(
                f"expected at most {self.config.max_items} items in one call at `{where}`, got {len(items)}"
            )

    def check_entity(self, entity: NewEntity, where: str) -> None:
        """Check the texts of a new entity, and the number of its observations.

        Raises:
            ToolError: A text is too long or contains NUL or a lone surrogate, or there are too many observations.
        """
        self.check_name(entity.name, f"{where}.name")
        self._check(entity.entity_type, self.config.max_name, f"{where}.entity_type")
        self._check_observations(entity.observations, f"{where}.observations")

    def check_relation(self, relation: Relation, where: str) -> None:
        """Check the names in a relation.

        Raises:
            ToolError: A text is empty, too long, or contains NUL or a lone surrogate.
        """
        self.check_name(relation.source, f"{where}.from")
        self.check_name(relation.target, f"{where}.to")
        self.check_name(relation.relation_type, f"{where}.relation_type")

    def check_addition(self, addition: NewObservations, where: str) -> None:
        """Check the texts and the number of observations to add to an entity.

        Raises:
            ToolError: A text is too long or contains NUL or a lone surrogate, or there are too many observations.
        """
        self.check_name(addition.entity_name, f"{where}.entity_name")
        self._check_observations(addition.contents, f"{where}.contents")

    def check_name(self, name: str, where: str) -> None:
        """Check the name of an entity or of a relation's type.

        Raises:
            ToolError: The name is empty, too long, or contains NUL or a lone surrogate.
        """
        if not name:
            raise ToolError(f"expected a string at `{where}`, got an empty one")
        self._check(name, self.config.max_name, where)

    def _check_observations(self, texts: Sequence[str], where: str) -> None:
        if len(texts) > self.config.max_observations:
            raise ToolError(
                f"expected at most {self.config.max_observations} observations at `{where}`, got {len(texts)}"
            )
        for number, text in enumerate(texts):
            self._check(text, self.config.max_observation, f"{where}[{number}]")

    @staticmethod
    def _check(text: str, longest: int, where: str) -> None:
        if len(text) > longest:
            raise ToolError(f"expected at most {longest} characters at `{where}`, got {len(text)}")
        if "\0" in text:
            at = text.index("\0") + 1
            raise ToolError(f"expected a string without NUL, got one at character {at} at `{where}`")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ToolError(f"expected a string of valid Unicode at `{where}`, got a lone surrogate") from error
