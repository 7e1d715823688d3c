"""The base class with the methods that add tools, resources and prompts, before or while the server is open.

``Server`` is a registrar. A plugin receives its own registrar in its hooks, and as ``ctx.server``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

import trio

from mcptrio.capabilities.decorators import (
    CompletionMark,
    Mark,
    MethodMark,
    PromptMark,
    PromptOptions,
    ResourceMark,
    ResourceOptions,
    ToolMark,
    ToolOptions,
    completion_key,
    mark_of,
)

__all__ = ["Registrar"]


class Registrar(ABC):
    """Adds tools, resources and prompts to a server, and removes them. Clients are notified of each change.

    An entry that a plugin adds through its registrar belongs to the plugin: it has the plugin's prefix, settings and
    limits, and is removed with the plugin.
    """

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> str:
        """Add a tool. The options are those of ``@tool``, and replace those of a decorator that the function has.

        Returns:
            The name that clients see.

        Raises:
            TypeError, ValueError: The function or an option does not fit.
            ValueError: The name is taken.
        """
        return self._offer(function, mark_of(function, ToolMark, options))

    def remove_tool(self, name: str) -> bool:
        """Remove a tool. Returns whether it existed."""
        return self._remove(ToolMark, name)

    def add_resource(self, function: Callable[..., Any], uri: str = "", **options: Unpack[ResourceOptions]) -> str:
        """Add a resource, or a resource template if ``uri`` is one. The options are those of ``@resource``.

        Args:
            uri: The URI, unless ``@resource`` has already set it.

        Returns:
            The URI.

        Raises:
            TypeError, ValueError: The function or an option does not fit.
            ValueError: The URI is taken.
        """
        # An empty URI must not replace the one of the decorator.
        named = {"uri": uri, **options} if uri else dict(options)
        return self._offer(function, mark_of(function, ResourceMark, named))

    def remove_resource(self, uri: str) -> bool:
        """Remove a resource or a template. Returns whether it existed."""
        return self._remove(ResourceMark, uri)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> str:
        """Add a prompt. The options are those of ``@prompt``, and replace those of a decorator that the function has.

        Returns:
            Its name.

        Raises:
            TypeError, ValueError: The function or an option does not fit.
            ValueError: The name is taken.
        """
        return self._offer(function, mark_of(function, PromptMark, options))

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt. Returns whether it existed."""
        return self._remove(PromptMark, name)

    def add_completion(
        self,
        candidates: Callable[..., Any] | Sequence[str],
        of: Literal["prompt", "resource"],
        name: str,
        argument: str,
    ) -> str:
        """Add the completion of an argument.

        Args:
            candidates: A function as ``@completion`` marks it, or the list of all values.
            of: ``prompt`` or ``resource``.
            name: The prompt's name, or the URI template.
            argument: The prompt's argument, or the template's variable.

        Raises:
            TypeError, ValueError: The function or ``of`` does not fit.
            ValueError: The argument already has a completion.
        """
        return self._offer(candidates, CompletionMark(of=of, name=name, argument=argument))

    def remove_completion(self, of: Literal["prompt", "resource"], name: str, argument: str) -> bool:
        """Remove the completion of an argument. Returns whether it existed."""
        return self._remove(CompletionMark, completion_key(of, name, argument))

    def add_method(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        notification: bool = False,
        capability: str | None = None,
    ) -> str:
        """Handle a request or a notification outside the specification: see ``@method`` and ``@notification``.

        Args:
            notification: The function handles a notification, which may be one of the specification.
            capability: An extension's identifier; the method exists only while that extension is advertised.

        Raises:
            ValueError: The name belongs to the specification.
            ValueError: The name is taken.
        """
        return self._offer(function, MethodMark(name=name, notification=notification, capability=capability))

    @abstractmethod
    def add_instructions(self, text: Callable[[], str | None]) -> Callable[[], None]:
        """Add to the instructions that clients get when they connect.

        Args:
            text: Returns the text each time a client asks; ``None`` for nothing.

        Returns:
            A function that removes the text.
        """

    @abstractmethod
    def announce_lists(self) -> None:
        """Advertise tools, resources and prompts even if there are none yet, because some will be added later."""

    @abstractmethod
    def notify_resource_updated(self, uri: str, *, caller: str | None = None) -> None:
        """Notify the subscribers of a resource, in every revision, that it has changed.

        Args:
            caller: The caller to notify (``ctx.caller``); ``None`` notifies all subscribers.
        """

    @abstractmethod
    async def broadcast(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a custom notification, in wire form, to every handshake session that has a stream for it.

        A checkpoint. This does not wait for clients: a client that does not read loses notifications when its queue is
        full.

        Raises:
            LocalProtocolError: A parameter cannot be encoded as JSON without changing its value.
        """

    @abstractmethod
    def watched(self) -> frozenset[str]:
        """Return the URIs of the resources to which clients of this process are subscribed."""

    @abstractmethod
    async def wait_watched(self) -> None:
        """Wait until a client subscribes or unsubscribes."""

    @abstractmethod
    def tool_name(self, name: str) -> str:
        """Return the name under which clients see a tool of the same owner: with the prefix if it is a plugin."""

    @property
    @abstractmethod
    def threads(self) -> trio.CapacityLimiter:
        """The limiter for ``trio.to_thread.run_sync`` in a function that starts threads; one per plugin, one for the
        server.

        It has ``limits.threads`` places, in addition to those of sync functions. A thread that waits for another one
        needs its own limiter.
        """

    # For subclasses

    @abstractmethod
    def _offer(self, function: Any, mark: Mark) -> str:
        """Add a decorated function. Returns its name or URI."""

    @abstractmethod
    def _remove(self, kind: type[Mark], key: str) -> bool:
        """Remove an entry. Returns whether it existed."""
