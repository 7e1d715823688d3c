"""The types of the protocol: what handlers return and clients receive.

Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.capabilities.questions import Elicited as Elicited
    from mcptrio.capabilities.questions import Question as Question
    from mcptrio.capabilities.task_control import TaskControl as TaskControl
    from mcptrio.protocol.messages import Batch as Batch
    from mcptrio.protocol.messages import ErrorResponse as ErrorResponse
    from mcptrio.protocol.messages import Incoming as Incoming
    from mcptrio.protocol.messages import Malformed as Malformed
    from mcptrio.protocol.messages import Message as Message
    from mcptrio.protocol.messages import Notification as Notification
    from mcptrio.protocol.messages import Request as Request
    from mcptrio.protocol.messages import RequestId as RequestId
    from mcptrio.protocol.messages import Response as Response
    from mcptrio.protocol.model.base import CacheableResult as CacheableResult
    from mcptrio.protocol.model.base import CacheScope as CacheScope
    from mcptrio.protocol.model.base import Params as Params
    from mcptrio.protocol.model.base import Result as Result
    from mcptrio.protocol.model.base import Role as Role
    from mcptrio.protocol.model.completion import Completion as Completion
    from mcptrio.protocol.model.content import Annotations as Annotations
    from mcptrio.protocol.model.content import AudioContent as AudioContent
    from mcptrio.protocol.model.content import ContentBlock as ContentBlock
    from mcptrio.protocol.model.content import EmbeddedResource as EmbeddedResource
    from mcptrio.protocol.model.content import ImageContent as ImageContent
    from mcptrio.protocol.model.content import ResourceLink as ResourceLink
    from mcptrio.protocol.model.content import TextContent as TextContent
    from mcptrio.protocol.model.content import ToolResultContent as ToolResultContent
    from mcptrio.protocol.model.content import ToolUseContent as ToolUseContent
    from mcptrio.protocol.model.content import UnknownContent as UnknownContent
    from mcptrio.protocol.model.elicitation import ElicitFormParams as ElicitFormParams
    from mcptrio.protocol.model.elicitation import ElicitResult as ElicitResult
    from mcptrio.protocol.model.elicitation import ElicitURLParams as ElicitURLParams
    from mcptrio.protocol.model.fields import Meta as Meta
    from mcptrio.protocol.model.icons import Icon as Icon
    from mcptrio.protocol.model.input_required import CreateMessageRequest as CreateMessageRequest
    from mcptrio.protocol.model.input_required import ElicitRequest as ElicitRequest
    from mcptrio.protocol.model.input_required import InputRequest as InputRequest
    from mcptrio.protocol.model.input_required import ListRootsRequest as ListRootsRequest
    from mcptrio.protocol.model.lifecycle import ClientCapabilities as ClientCapabilities
    from mcptrio.protocol.model.lifecycle import ElicitationCapability as ElicitationCapability
    from mcptrio.protocol.model.lifecycle import Implementation as Implementation
    from mcptrio.protocol.model.lifecycle import PromptsCapability as PromptsCapability
    from mcptrio.protocol.model.lifecycle import ResourcesCapability as ResourcesCapability
    from mcptrio.protocol.model.lifecycle import RootsCapability as RootsCapability
    from mcptrio.protocol.model.lifecycle import SamplingCapability as SamplingCapability
    from mcptrio.protocol.model.lifecycle import ServerCapabilities as ServerCapabilities
    from mcptrio.protocol.model.lifecycle import TasksCapability as TasksCapability
    from mcptrio.protocol.model.lifecycle import ToolsCapability as ToolsCapability
    from mcptrio.protocol.model.logging import LoggingLevel as LoggingLevel
    from mcptrio.protocol.model.logging import LoggingMessageParams as LoggingMessageParams
    from mcptrio.protocol.model.prompts import GetPromptResult as GetPromptResult
    from mcptrio.protocol.model.prompts import Prompt as Prompt
    from mcptrio.protocol.model.prompts import PromptArgument as PromptArgument
    from mcptrio.protocol.model.prompts import PromptMessage as PromptMessage
    from mcptrio.protocol.model.resource_contents import BlobResourceContents as BlobResourceContents
    from mcptrio.protocol.model.resource_contents import ResourceContents as ResourceContents
    from mcptrio.protocol.model.resource_contents import TextResourceContents as TextResourceContents
    from mcptrio.protocol.model.resources import ReadResourceResult as ReadResourceResult
    from mcptrio.protocol.model.resources import Resource as Resource
    from mcptrio.protocol.model.resources import ResourceTemplate as ResourceTemplate
    from mcptrio.protocol.model.roots import ListRootsParams as ListRootsParams
    from mcptrio.protocol.model.roots import ListRootsResult as ListRootsResult
    from mcptrio.protocol.model.roots import Root as Root
    from mcptrio.protocol.model.sampling import CreateMessageParams as CreateMessageParams
    from mcptrio.protocol.model.sampling import CreateMessageResult as CreateMessageResult
    from mcptrio.protocol.model.sampling import IncludeContext as IncludeContext
    from mcptrio.protocol.model.sampling import ModelHint as ModelHint
    from mcptrio.protocol.model.sampling import ModelPreferences as ModelPreferences
    from mcptrio.protocol.model.sampling import SamplingContent as SamplingContent
    from mcptrio.protocol.model.sampling import SamplingMessage as SamplingMessage
    from mcptrio.protocol.model.sampling import ToolChoice as ToolChoice
    from mcptrio.protocol.model.subscriptions import SubscriptionFilter as SubscriptionFilter
    from mcptrio.protocol.model.tasks import TaskStatus as TaskStatus
    from mcptrio.protocol.model.tools import CallToolResult as CallToolResult
    from mcptrio.protocol.model.tools import Tool as Tool
    from mcptrio.protocol.model.tools import ToolAnnotations as ToolAnnotations
    from mcptrio.protocol.model.tools import ToolExecution as ToolExecution

_HOMES = {
    # JSON-RPC messages
    "Batch": "mcptrio.protocol.messages",
    "ErrorResponse": "mcptrio.protocol.messages",
    "Incoming": "mcptrio.protocol.messages",
    "Malformed": "mcptrio.protocol.messages",
    "Message": "mcptrio.protocol.messages",
    "Notification": "mcptrio.protocol.messages",
    "Request": "mcptrio.protocol.messages",
    "RequestId": "mcptrio.protocol.messages",
    "Response": "mcptrio.protocol.messages",
    # Types of the specification
    "Annotations": "mcptrio.protocol.model.content",
    "AudioContent": "mcptrio.protocol.model.content",
    "BlobResourceContents": "mcptrio.protocol.model.resource_contents",
    "CacheScope": "mcptrio.protocol.model.base",
    "CacheableResult": "mcptrio.protocol.model.base",
    "CallToolResult": "mcptrio.protocol.model.tools",
    "ClientCapabilities": "mcptrio.protocol.model.lifecycle",
    "Completion": "mcptrio.protocol.model.completion",
    "ContentBlock": "mcptrio.protocol.model.content",
    "CreateMessageParams": "mcptrio.protocol.model.sampling",
    "CreateMessageRequest": "mcptrio.protocol.model.input_required",
    "CreateMessageResult": "mcptrio.protocol.model.sampling",
    "ElicitFormParams": "mcptrio.protocol.model.elicitation",
    "ElicitRequest": "mcptrio.protocol.model.input_required",
    "ElicitResult": "mcptrio.protocol.model.elicitation",
    "ElicitURLParams": "mcptrio.protocol.model.elicitation",
    "ElicitationCapability": "mcptrio.protocol.model.lifecycle",
    "Elicited": "mcptrio.capabilities.questions",
    "EmbeddedResource": "mcptrio.protocol.model.content",
    "GetPromptResult": "mcptrio.protocol.model.prompts",
    "Icon": "mcptrio.protocol.model.icons",
    "ImageContent": "mcptrio.protocol.model.content",
    "Implementation": "mcptrio.protocol.model.lifecycle",
    "IncludeContext": "mcptrio.protocol.model.sampling",
    "InputRequest": "mcptrio.protocol.model.input_required",
    "ListRootsParams": "mcptrio.protocol.model.roots",
    "ListRootsRequest": "mcptrio.protocol.model.input_required",
    "ListRootsResult": "mcptrio.protocol.model.roots",
    "LoggingLevel": "mcptrio.protocol.model.logging",
    "LoggingMessageParams": "mcptrio.protocol.model.logging",
    "Meta": "mcptrio.protocol.model.fields",
    "ModelHint": "mcptrio.protocol.model.sampling",
    "ModelPreferences": "mcptrio.protocol.model.sampling",
    "Params": "mcptrio.protocol.model.base",
    "Prompt": "mcptrio.protocol.model.prompts",
    "PromptArgument": "mcptrio.protocol.model.prompts",
    "PromptMessage": "mcptrio.protocol.model.prompts",
    "PromptsCapability": "mcptrio.protocol.model.lifecycle",
    "Question": "mcptrio.capabilities.questions",
    "ReadResourceResult": "mcptrio.protocol.model.resources",
    "Resource": "mcptrio.protocol.model.resources",
    "ResourceContents": "mcptrio.protocol.model.resource_contents",
    "ResourceLink": "mcptrio.protocol.model.content",
    "ResourceTemplate": "mcptrio.protocol.model.resources",
    "ResourcesCapability": "mcptrio.protocol.model.lifecycle",
    "Result": "mcptrio.protocol.model.base",
    "Role": "mcptrio.protocol.model.base",
    "Root": "mcptrio.protocol.model.roots",
    "RootsCapability": "mcptrio.protocol.model.lifecycle",
    "SamplingCapability": "mcptrio.protocol.model.lifecycle",
    "SamplingContent": "mcptrio.protocol.model.sampling",
    "SamplingMessage": "mcptrio.protocol.model.sampling",
    "ServerCapabilities": "mcptrio.protocol.model.lifecycle",
    "SubscriptionFilter": "mcptrio.protocol.model.subscriptions",
    "TaskControl": "mcptrio.capabilities.task_control",
    "TaskStatus": "mcptrio.protocol.model.tasks",
    "TasksCapability": "mcptrio.protocol.model.lifecycle",
    "TextContent": "mcptrio.protocol.model.content",
    "TextResourceContents": "mcptrio.protocol.model.resource_contents",
    "Tool": "mcptrio.protocol.model.tools",
    "ToolAnnotations": "mcptrio.protocol.model.tools",
    "ToolChoice": "mcptrio.protocol.model.sampling",
    "ToolExecution": "mcptrio.protocol.model.tools",
    "ToolResultContent": "mcptrio.protocol.model.content",
    "ToolUseContent": "mcptrio.protocol.model.content",
    "ToolsCapability": "mcptrio.protocol.model.lifecycle",
    "UnknownContent": "mcptrio.protocol.model.content",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
