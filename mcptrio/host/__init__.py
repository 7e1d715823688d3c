"""Several servers as one: lists without collisions, calls with consent, each server for itself.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.host.approval import ApprovalRequest as ApprovalRequest
    from mcptrio.host.approval import Decision as Decision
    from mcptrio.host.audit import AuditRecord as AuditRecord
    from mcptrio.host.audit_file import AuditFile as AuditFile
    from mcptrio.host.changes import HostChange as HostChange
    from mcptrio.host.changes import HostChanges as HostChanges
    from mcptrio.host.listing import HostList as HostList
    from mcptrio.host.listing import HostListing as HostListing
    from mcptrio.host.listing import HostPrompt as HostPrompt
    from mcptrio.host.listing import HostResource as HostResource
    from mcptrio.host.listing import HostResourceTemplate as HostResourceTemplate
    from mcptrio.host.listing import HostTool as HostTool
    from mcptrio.host.member import ConnectionStatus as ConnectionStatus
    from mcptrio.host.options import HostOptions as HostOptions

_HOMES = {
    # Consent
    "ApprovalRequest": "mcptrio.host.approval",
    "Decision": "mcptrio.host.approval",
    # Audit
    "AuditFile": "mcptrio.host.audit_file",
    "AuditRecord": "mcptrio.host.audit",
    # Lists and changes
    "HostChange": "mcptrio.host.changes",
    "HostChanges": "mcptrio.host.changes",
    "HostList": "mcptrio.host.listing",
    "HostListing": "mcptrio.host.listing",
    "HostPrompt": "mcptrio.host.listing",
    "HostResource": "mcptrio.host.listing",
    "HostResourceTemplate": "mcptrio.host.listing",
    "HostTool": "mcptrio.host.listing",
    # Options and status
    "HostOptions": "mcptrio.host.options",
    "ConnectionStatus": "mcptrio.host.member",
}
"""Every public name, and the module that has it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above say it to type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
