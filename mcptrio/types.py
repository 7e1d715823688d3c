"""The types of the protocol: what handlers return and clients receive.

Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.capabilities.questions import Elicited as Elicited
    from mcptrio.capabilities.questions import Question as Question
    from mcptrio.protocol.messages import Batch as Batch
    from mcptrio.protocol.messages import ErrorResponse as ErrorResponse
    from mcptrio.protocol.messages import Incoming as Incoming
    from mcptrio.protocol.messages import Malformed as Malformed
    from mcptrio.protocol.messages import Message as Message
    from mcptrio.protocol.messages import Notification as Notification
    from mcptrio.protocol.messages import Request as Request
    from mcptrio.protocol.messages import RequestId as RequestId
    from mcptrio.protocol.messages import Response as Response
    from mcptrio.protocol.model import Annotations as Annotations
    from mcptrio.protocol.model import AudioContent as AudioContent
    from mcptrio.protocol.model import BlobResourceContents as BlobResourceContents
    from mcptrio.protocol.model import CacheableResult as CacheableResult
    from mcptrio.protocol.model import CacheScope as CacheScope
    from mcptrio.protocol.model import CallToolResult as CallToolResult
    from mcptrio.protocol.model import ClientCapabilities as ClientCapabilities
    from mcptrio.protocol.model import Completion as Completion
    from mcptrio.protocol.model import ContentBlock as ContentBlock
    from mcptrio.protocol.model import CreateMessageParams as CreateMessageParams
    from mcptrio.protocol.model import CreateMessageRequest as CreateMessageRequest
    from mcptrio.protocol.model import CreateMessageResult as CreateMessageResult
    from mcptrio.protocol.model import ElicitationCapability as ElicitationCapability
    from mcptrio.protocol.model import ElicitFormParams as ElicitFormParams
    from mcptrio.protocol.model import ElicitRequest as ElicitRequest
    from mcptrio.protocol.model import ElicitResult as ElicitResult
    from mcptrio.protocol.model import ElicitURLParams as ElicitURLParams
    from mcptrio.protocol.model import EmbeddedResource as EmbeddedResource
    from mcptrio.protocol.model import GetPromptResult as GetPromptResult
    from mcptrio.protocol.model import Icon as Icon
    from mcptrio.protocol.model import ImageContent as ImageContent
    from mcptrio.protocol.model import Implementation as Implementation
    from mcptrio.protocol.model import IncludeContext as IncludeContext
    from mcptrio.protocol.model import InputRequest as InputRequest
    from mcptrio.protocol.model import ListRootsParams as ListRootsParams
    from mcptrio.protocol.model import ListRootsRequest as ListRootsRequest
    from mcptrio.protocol.model import ListRootsResult as ListRootsResult
    from mcptrio.protocol.model import LoggingLevel as LoggingLevel
    from mcptrio.protocol.model import LoggingMessageParams as LoggingMessageParams
    from mcptrio.protocol.model import Meta as Meta
    from mcptrio.protocol.model import ModelHint as ModelHint
    from mcptrio.protocol.model import ModelPreferences as ModelPreferences
    from mcptrio.protocol.model import Params as Params
    from mcptrio.protocol.model import Prompt as Prompt
    from mcptrio.protocol.model import PromptArgument as PromptArgument
    from mcptrio.protocol.model import PromptMessage as PromptMessage
    from mcptrio.protocol.model import PromptsCapability as PromptsCapability
    from mcptrio.protocol.model import ReadResourceResult as ReadResourceResult
    from mcptrio.protocol.model import Resource as Resource
    from mcptrio.protocol.model import ResourceContents as ResourceContents
    from mcptrio.protocol.model import ResourceLink as ResourceLink
    from mcptrio.protocol.model import ResourcesCapability as ResourcesCapability
    from mcptrio.protocol.model import ResourceTemplate as ResourceTemplate
    from mcptrio.protocol.model import Result as Result
    from mcptrio.protocol.model import Role as Role
    from mcptrio.protocol.model import Root as Root
    from mcptrio.protocol.model import RootsCapability as RootsCapability
    from mcptrio.protocol.model import SamplingCapability as SamplingCapability
    from mcptrio.protocol.model import SamplingContent as SamplingContent
    from mcptrio.protocol.model import SamplingMessage as SamplingMessage
    from mcptrio.protocol.model import ServerCapabilities as ServerCapabilities
    from mcptrio.protocol.model import SubscriptionFilter as SubscriptionFilter
    from mcptrio.protocol.model import TextContent as TextContent
    from mcptrio.protocol.model import TextResourceContents as TextResourceContents
    from mcptrio.protocol.model import Tool as Tool
    from mcptrio.protocol.model import ToolAnnotations as ToolAnnotations
    from mcptrio.protocol.model import ToolChoice as ToolChoice
    from mcptrio.protocol.model import ToolExecution as ToolExecution
    from mcptrio.protocol.model import ToolResultContent as ToolResultContent
    from mcptrio.protocol.model import ToolsCapability as ToolsCapability
    from mcptrio.protocol.model import ToolUseContent as ToolUseContent
    from mcptrio.protocol.model import UnknownContent as UnknownContent

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
    "Annotations": "mcptrio.protocol.model",
    "AudioContent": "mcptrio.protocol.model",
    "BlobResourceContents": "mcptrio.protocol.model",
    "CacheScope": "mcptrio.protocol.model",
    "CacheableResult": "mcptrio.protocol.model",
    "CallToolResult": "mcptrio.protocol.model",
    "ClientCapabilities": "mcptrio.protocol.model",
    "Completion": "mcptrio.protocol.model",
    "ContentBlock": "mcptrio.protocol.model",
    "CreateMessageParams": "mcptrio.protocol.model",
    "CreateMessageRequest": "mcptrio.protocol.model",
    "CreateMessageResult": "mcptrio.protocol.model",
    "ElicitFormParams": "mcptrio.protocol.model",
    "ElicitRequest": "mcptrio.protocol.model",
    "ElicitResult": "mcptrio.protocol.model",
    "ElicitURLParams": "mcptrio.protocol.model",
    "ElicitationCapability": "mcptrio.protocol.model",
    "Elicited": "mcptrio.capabilities.questions",
    "EmbeddedResource": "mcptrio.protocol.model",
    "GetPromptResult": "mcptrio.protocol.model",
    "Icon": "mcptrio.protocol.model",
    "ImageContent": "mcptrio.protocol.model",
    "Implementation": "mcptrio.protocol.model",
    "IncludeContext": "mcptrio.protocol.model",
    "InputRequest": "mcptrio.protocol.model",
    "ListRootsParams": "mcptrio.protocol.model",
    "ListRootsRequest": "mcptrio.protocol.model",
    "ListRootsResult": "mcptrio.protocol.model",
    "LoggingLevel": "mcptrio.protocol.model",
    "LoggingMessageParams": "mcptrio.protocol.model",
    "Meta": "mcptrio.protocol.model",
    "ModelHint": "mcptrio.protocol.model",
    "ModelPreferences": "mcptrio.protocol.model",
    "Params": "mcptrio.protocol.model",
    "Prompt": "mcptrio.protocol.model",
    "PromptArgument": "mcptrio.protocol.model",
    "PromptMessage": "mcptrio.protocol.model",
    "PromptsCapability": "mcptrio.protocol.model",
    "Question": "mcptrio.capabilities.questions",
    "ReadResourceResult": "mcptrio.protocol.model",
    "Resource": "mcptrio.protocol.model",
    "ResourceContents": "mcptrio.protocol.model",
    "ResourceLink": "mcptrio.protocol.model",
    "ResourceTemplate": "mcptrio.protocol.model",
    "ResourcesCapability": "mcptrio.protocol.model",
    "Result": "mcptrio.protocol.model",
    "Role": "mcptrio.protocol.model",
    "Root": "mcptrio.protocol.model",
    "RootsCapability": "mcptrio.protocol.model",
    "SamplingCapability": "mcptrio.protocol.model",
    "SamplingContent": "mcptrio.protocol.model",
    "SamplingMessage": "mcptrio.protocol.model",
    "ServerCapabilities": "mcptrio.protocol.model",
    "SubscriptionFilter": "mcptrio.protocol.model",
    "TextContent": "mcptrio.protocol.model",
    "TextResourceContents": "mcptrio.protocol.model",
    "Tool": "mcptrio.protocol.model",
    "ToolAnnotations": "mcptrio.protocol.model",
    "ToolChoice": "mcptrio.protocol.model",
    "ToolExecution": "mcptrio.protocol.model",
    "ToolResultContent": "mcptrio.protocol.model",
    "ToolUseContent": "mcptrio.protocol.model",
    "ToolsCapability": "mcptrio.protocol.model",
    "UnknownContent": "mcptrio.protocol.model",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above say it to type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
