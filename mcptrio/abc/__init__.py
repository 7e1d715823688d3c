"""Interfaces between the parts of mcptrio: protocols and frozen values, without behaviour.

Both the code that calls an interface and the code that implements it import it from here. Each name is imported when it
is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.abc.authorization import AuthMethod as AuthMethod
    from mcptrio.abc.authorization import ClientAuth as ClientAuth
    from mcptrio.abc.authorization import Fetch as Fetch
    from mcptrio.abc.authorization import FetchRequest as FetchRequest
    from mcptrio.abc.authorization import FetchResponse as FetchResponse
    from mcptrio.abc.authorization import Guard as Guard
    from mcptrio.abc.authorization import OwnIssuer as OwnIssuer
    from mcptrio.abc.authorization import Principal as Principal
    from mcptrio.abc.authorization import RequestHead as RequestHead
    from mcptrio.abc.authorization import TokenStore as TokenStore
    from mcptrio.abc.authorization import TokenVerifier as TokenVerifier
    from mcptrio.abc.channels import MessageChannel as MessageChannel
    from mcptrio.abc.channels import MessageSink as MessageSink
    from mcptrio.abc.channels import SynchronousChannel as SynchronousChannel
    from mcptrio.abc.engine import ASGIApp as ASGIApp
    from mcptrio.abc.engine import Engine as Engine
    from mcptrio.abc.engine import PeerSession as PeerSession
    from mcptrio.abc.engine import StateSealer as StateSealer
    from mcptrio.abc.status import ReplicaStatus as ReplicaStatus
    from mcptrio.abc.status import StoreStatus as StoreStatus
    from mcptrio.abc.stores import INBOX_MESSAGE as INBOX_MESSAGE
    from mcptrio.abc.stores import STORE_RETRY_SECONDS as STORE_RETRY_SECONDS
    from mcptrio.abc.stores import Bus as Bus
    from mcptrio.abc.stores import EffectClaim as EffectClaim
    from mcptrio.abc.stores import EffectState as EffectState
    from mcptrio.abc.stores import EffectStore as EffectStore
    from mcptrio.abc.stores import EventStore as EventStore
    from mcptrio.abc.stores import QuotaStore as QuotaStore
    from mcptrio.abc.stores import ReplayStore as ReplayStore
    from mcptrio.abc.stores import SessionRecord as SessionRecord
    from mcptrio.abc.stores import SessionStore as SessionStore
    from mcptrio.abc.stores import StoredEvent as StoredEvent
    from mcptrio.abc.stores import Stores as Stores
    from mcptrio.abc.stores import UsesStores as UsesStores
    from mcptrio.abc.stores import session_topic as session_topic
    from mcptrio.abc.stores import wake_message as wake_message
    from mcptrio.abc.tasks import TASK_CHANGED as TASK_CHANGED
    from mcptrio.abc.tasks import TASK_QUEUED as TASK_QUEUED
    from mcptrio.abc.tasks import TASKS_TOPIC as TASKS_TOPIC
    from mcptrio.abc.tasks import TaskQueue as TaskQueue
    from mcptrio.abc.tasks import TaskRecord as TaskRecord
    from mcptrio.abc.tasks import TaskState as TaskState
    from mcptrio.abc.tasks import TaskStore as TaskStore
    from mcptrio.abc.tasks import task_topic as task_topic

_HOMES = {
    "ASGIApp": "mcptrio.abc.engine",
    "AuthMethod": "mcptrio.abc.authorization",
    "Bus": "mcptrio.abc.stores",
    "ClientAuth": "mcptrio.abc.authorization",
    "Engine": "mcptrio.abc.engine",
    "EventStore": "mcptrio.abc.stores",
    "Fetch": "mcptrio.abc.authorization",
    "FetchRequest": "mcptrio.abc.authorization",
    "FetchResponse": "mcptrio.abc.authorization",
    "Guard": "mcptrio.abc.authorization",
    "MessageChannel": "mcptrio.abc.channels",
    "MessageSink": "mcptrio.abc.channels",
    "OwnIssuer": "mcptrio.abc.authorization",
    "PeerSession": "mcptrio.abc.engine",
    "Principal": "mcptrio.abc.authorization",
    "SynchronousChannel": "mcptrio.abc.channels",
    "RequestHead": "mcptrio.abc.authorization",
    "SessionRecord": "mcptrio.abc.stores",
    "SessionStore": "mcptrio.abc.stores",
    "StateSealer": "mcptrio.abc.engine",
    "EffectClaim": "mcptrio.abc.stores",
    "EffectState": "mcptrio.abc.stores",
    "EffectStore": "mcptrio.abc.stores",
    "INBOX_MESSAGE": "mcptrio.abc.stores",
    "STORE_RETRY_SECONDS": "mcptrio.abc.stores",
    "QuotaStore": "mcptrio.abc.stores",
    "ReplayStore": "mcptrio.abc.stores",
    "ReplicaStatus": "mcptrio.abc.status",
    "Stores": "mcptrio.abc.stores",
    "StoreStatus": "mcptrio.abc.status",
    "UsesStores": "mcptrio.abc.stores",
    "session_topic": "mcptrio.abc.stores",
    "wake_message": "mcptrio.abc.stores",
    "StoredEvent": "mcptrio.abc.stores",
    "TASK_CHANGED": "mcptrio.abc.tasks",
    "TASK_QUEUED": "mcptrio.abc.tasks",
    "TASKS_TOPIC": "mcptrio.abc.tasks",
    "TaskQueue": "mcptrio.abc.tasks",
    "TaskRecord": "mcptrio.abc.tasks",
    "TaskState": "mcptrio.abc.tasks",
    "TaskStore": "mcptrio.abc.tasks",
    "task_topic": "mcptrio.abc.tasks",
    "TokenStore": "mcptrio.abc.authorization",
    "TokenVerifier": "mcptrio.abc.authorization",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
