"""Completion: ``completion/complete`` for the arguments of prompts and the variables of templates.

Candidates come from a function, from a list, or from the type of the argument (``Literal``, ``Enum``, ``bool``). The
best matches are sent.

Source: MCP 2026-07-28, server/utilities/completion.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define

from mcptrio.capabilities.access import Access
from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.decorators import CompletionMark, completion_key
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.prompts import PromptEntry
from mcptrio.capabilities.ranking import rank
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.resource_index import ResourceIndex
from mcptrio.errors import InvalidParams, RateLimited
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.protocol.model.completion import CompleteParams, CompleteResult, Completion, PromptReference
from mcptrio.runtime.request import Handler, RequestScope

__all__ = ["CompletionEntry", "Completions"]

RATE = 50.0
"""Completions per second of one session. A person types about ten characters a second."""
BURST = 100.0
"""Completions at once after a pause: a client may ask for several arguments of a form."""
MAX_VALUE_CHARS = 4096
"""Characters of the typed text, which is compared with many candidates."""
MAX_CALLERS = 1000
"""Callers without a session that have their own rate. When full, the least recently used one is evicted."""


@define(eq=False, slots=True)
class CompletionEntry:
    """A registered completion: a function or a list of values."""

    key: str
    owner: Owner
    candidates: Function | Sequence[str]
    scopes: frozenset[str] = frozenset()
    """Always empty, because the scopes of the prompt or template apply."""


class Completions:
    """Handles ``completion/complete``."""

    def __init__(
        self,
        registry: Registry[CompletionEntry],
        prompts: Registry[PromptEntry],
        resources: ResourceIndex,
        access: Access,
        calls: FunctionCaller,
    ) -> None:
        self.registry = registry
        self._prompts = prompts
        self._resources = resources
        self._access = access
        self._calls = calls
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self.handlers: dict[str, Handler] = {"completion/complete": self._complete}

    def register(self, candidates: Callable[..., Any] | Sequence[str], mark: CompletionMark, owner: Owner) -> str:
        """Add a completion.

        Raises:
            TypeError: The function has other parameters than ``value``, ``arguments`` and a Context.
            Duplicate: The argument already has a completion.
        """
        offered: Function | Sequence[str]
        if callable(candidates):
            # The function receives values as text, so its signature needs no conversion.
            function = Function(candidates, raw=True)
            others = function.parameters - {"value", "arguments", function.context}
            if others:
                raise TypeError(
                    f"completion of {mark.of} {mark.name} {mark.argument}: expected the parameters value, arguments "
                    f"and a Context, got {sorted(str(name) for name in others)}"
                )
            offered = function
        else:
            offered = tuple(candidates)
        key = completion_key(mark.of, mark.name, mark.argument)
        self.registry.add(CompletionEntry(key=key, owner=owner, candidates=offered))
        return key

    async def _complete(self, scope: RequestScope, params: CompleteParams) -> CompleteResult:
        typed = params.argument.value
        if len(typed) > MAX_VALUE_CHARS:
            raise InvalidParams(f"expected at most {MAX_VALUE_CHARS} characters at `argument.value`, got {len(typed)}")
        # The users of a gateway share one session, and therefore one bucket. Requests beyond the rate are refused.
        if not self._bucket(scope).take():
            raise RateLimited(f"too many completions: more than {RATE:g} a second")
        of, ref = (
            ("prompt", params.ref.name) if isinstance(params.ref, PromptReference) else ("resource", params.ref.uri)
        )
        # Before the author's function runs, because this refuses unknown prompts and arguments.
        choices = self._choices(params, ref, scope)
        entry = self.registry.get(completion_key(of, ref, params.argument.name))
        candidates: Iterable[str] = choices
        if entry is not None:
            if isinstance(entry.candidates, Function):
                chosen = params.context.arguments if params.context is not None else {}
                offered = await self._call_function(scope, entry, entry.candidates, typed, chosen)
                if isinstance(offered, Completion):
                    return CompleteResult(completion=offered)
                candidates = offered
            else:
                candidates = entry.candidates
        return CompleteResult(completion=rank(candidates, typed))

    def _bucket(self, scope: RequestScope) -> TokenBucket:
        """Return the bucket of the session, or of the caller if the request has no session."""
        if scope.session.connection.peer is not None:
            return scope.session.buckets.setdefault("completion", TokenBucket(RATE, BURST))
        caller = scope.caller
        # Removed and added again, to keep the dict in the order of last use.
        bucket = self._buckets.pop(caller, None) or TokenBucket(RATE, BURST)
        self._buckets[caller] = bucket
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        return bucket

    async def _call_function(
        self, scope: RequestScope, entry: CompletionEntry, function: Function, typed: str, chosen: Mapping[str, str]
    ) -> Iterable[str] | Completion:
        values: dict[str, Any] = {"value": typed, "arguments": chosen}
        # The function may have one of these parameters, both or none.
        parameters = {name: value for name, value in values.items() if name in function.parameters}
        label = f"completion of {entry.key}"
        result = await self._calls.run(scope, function, parameters, label=label, owner=entry.owner, timeout=None)
        # The completion of a mounted server is already ranked and cut.
        return result if isinstance(result, Completion) else [str(item) for item in result or ()]

    def _choices(self, params: CompleteParams, ref: str, scope: RequestScope) -> Sequence[str]:
        """Return the values that the type of the argument lists; an empty list for any other type.

        Raises:
            InvalidParams: There is no such prompt, template or argument.
        """
        known: Sequence[str]
        if isinstance(params.ref, PromptReference):
            prompt = self._prompts.get(ref)
            if prompt is None or not self._may_list(prompt.component, scope):
                raise InvalidParams(f"no such prompt: {ref} at `ref.name`")
            function, known = prompt.function, [each.name for each in prompt.prompt.arguments]
        else:
            entry = self._resources.templates.get(ref) or self._resources.resources.get(ref)
            if entry is None or not self._may_list(entry.component, scope):
                raise InvalidParams(f"no such resource template: {ref} at `ref.uri`")
            function, known = entry.function, entry.template.variables if entry.template is not None else ()
        if params.argument.name not in known:
            raise InvalidParams(
                f"{ref} has no argument {quote_name(params.argument.name)}{suggest(params.argument.name, known)}"
            )
        # Of a mounted entry, only the names of arguments are known; its server completes them.
        schema = function.arguments.schema if function.arguments is not None else {}
        argument_schema = schema.get("properties", {}).get(params.argument.name, {})
        return list(dict.fromkeys(_listed_values(argument_schema, schema.get("$defs", {}))))

    def _may_list(self, component: Component, scope: RequestScope) -> bool:
        return not self._access.is_restricted or self._access.may_list(component, scope.principal)


def _listed_values(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values that a schema lists, as text. The schema of an optional argument is a choice of schemas."""
    if "$ref" in schema:
        # No definitions are passed on: the schema builder makes one level of references, and a cycle must end.
        yield from _listed_values(definitions.get(schema["$ref"].rpartition("/")[2], {}), {})
    elif schema.get("type") == "boolean":
        yield from ("true", "false")
    listed = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    # None stands for an absent argument, which a user cannot type.
    yield from (str(choice) for choice in listed if choice is not None)
    for each in schema.get("anyOf", ()):
        yield from _listed_values(each, definitions)
