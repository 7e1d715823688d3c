"""Several servers as one: common lists without name collisions, and calls with the user's consent.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.connecting.mcp_json.inputs import AskInput as AskInput
    from mcptrio.connecting.mcp_json.inputs import Input as Input
    from mcptrio.host.approval import ApprovalKind as ApprovalKind
    from mcptrio.host.approval import ApprovalRequest as ApprovalRequest
    from mcptrio.host.approval import Approve as Approve
    from mcptrio.host.approval import Decision as Decision
    from mcptrio.host.audit import Audit as Audit
    from mcptrio.host.audit import AuditKind as AuditKind
    from mcptrio.host.audit import AuditOutcome as AuditOutcome
    from mcptrio.host.audit import AuditRecord as AuditRecord
    from mcptrio.host.audit import Redact as Redact
    from mcptrio.host.audit_file import AuditFile as AuditFile
    from mcptrio.host.changes import HostChange as HostChange
    from mcptrio.host.changes import HostChangeKind as HostChangeKind
    from mcptrio.host.changes import HostChanges as HostChanges
    from mcptrio.host.listing import HostList as HostList
    from mcptrio.host.listing import HostListing as HostListing
    from mcptrio.host.listing import HostPrompt as HostPrompt
    from mcptrio.host.listing import HostResource as HostResource
    from mcptrio.host.listing import HostResourceTemplate as HostResourceTemplate
    from mcptrio.host.listing import HostTool as HostTool
    from mcptrio.host.managed_server import ConnectionState as ConnectionState
    from mcptrio.host.managed_server import ConnectionStatus as ConnectionStatus
    from mcptrio.host.options import HostOptions as HostOptions
    from mcptrio.host.tasks import HostTask as HostTask

# A table instead of imports, so that only programs that use the host load its dependencies.
_HOMES = {
    # Consent
    "ApprovalKind": "mcptrio.host.approval",
    "ApprovalRequest": "mcptrio.host.approval",
    "Approve": "mcptrio.host.approval",
    "Decision": "mcptrio.host.approval",
    # Audit
    "Audit": "mcptrio.host.audit",
    "AuditFile": "mcptrio.host.audit_file",
    "AuditKind": "mcptrio.host.audit",
    "AuditOutcome": "mcptrio.host.audit",
    "AuditRecord": "mcptrio.host.audit",
    "Redact": "mcptrio.host.audit",
    # Lists and changes
    "HostChange": "mcptrio.host.changes",
    "HostChangeKind": "mcptrio.host.changes",
    "HostChanges": "mcptrio.host.changes",
    "HostList": "mcptrio.host.listing",
    "HostListing": "mcptrio.host.listing",
    "HostPrompt": "mcptrio.host.listing",
    "HostResource": "mcptrio.host.listing",
    "HostResourceTemplate": "mcptrio.host.listing",
    "HostTask": "mcptrio.host.tasks",
    "HostTool": "mcptrio.host.listing",
    # Options and status
    "AskInput": "mcptrio.connecting.mcp_json.inputs",
    "ConnectionState": "mcptrio.host.managed_server",
    "ConnectionStatus": "mcptrio.host.managed_server",
    "HostOptions": "mcptrio.host.options",
    "Input": "mcptrio.connecting.mcp_json.inputs",
}
"""Every public name, and the module that has it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
