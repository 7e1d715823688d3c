"""Several servers as one: lists without collisions, calls with consent, each server for itself.

Used by applications; the public names are in ``mcptrio``.
The one rule: a server is another one's business in nothing.
"""

from mcptrio.host.approval import ApprovalRequest, Approve, Decision
from mcptrio.host.audit import AuditRecord
from mcptrio.host.audit_file import AuditFile
from mcptrio.host.changes import HostChange, HostChanges
from mcptrio.host.host import Host
from mcptrio.host.listing import HostList, HostListing, HostPrompt, HostResource, HostResourceTemplate, HostTool
from mcptrio.host.member import ConnectionStatus
from mcptrio.host.options import HostOptions

__all__ = [
    "ApprovalRequest",
    "Approve",
    "AuditFile",
    "AuditRecord",
    "ConnectionStatus",
    "Decision",
    "Host",
    "HostChange",
    "HostChanges",
    "HostList",
    "HostListing",
    "HostOptions",
    "HostPrompt",
    "HostResource",
    "HostResourceTemplate",
    "HostTool",
]
