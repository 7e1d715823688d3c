"""The test kit, for authors of plugins and for programs that embed a client or a server.

docs/testing.md describes it together with the fixtures of the pytest plugin. Each name is imported on first use, since
pytest loads the plugin in every project of an environment.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.testing.cases import HANDSHAKE as HANDSHAKE
    from mcptrio.testing.cases import MODERN as MODERN
    from mcptrio.testing.cases import REVISIONS as REVISIONS
    from mcptrio.testing.cases import TRANSPORTS as TRANSPORTS
    from mcptrio.testing.cases import Case as Case
    from mcptrio.testing.cases import Transport as Transport
    from mcptrio.testing.cases import cases_of as cases_of
    from mcptrio.testing.clock import run_jumping as run_jumping
    from mcptrio.testing.faults import Fault as Fault
    from mcptrio.testing.faults import Which as Which
    from mcptrio.testing.faults import cut as cut
    from mcptrio.testing.faults import delay as delay
    from mcptrio.testing.faults import drop as drop
    from mcptrio.testing.faults import duplicate as duplicate
    from mcptrio.testing.faults import garble as garble
    from mcptrio.testing.faults import sometimes as sometimes
    from mcptrio.testing.faulty_channel import FaultyChannel as FaultyChannel
    from mcptrio.testing.killable import KillableServer as KillableServer
    from mcptrio.testing.killable import open_killable as open_killable
    from mcptrio.testing.leaks import Holdings as Holdings
    from mcptrio.testing.leaks import adopt_orphans as adopt_orphans
    from mcptrio.testing.leaks import nothing_left as nothing_left
    from mcptrio.testing.recording import Recording as Recording
    from mcptrio.testing.replay import replayed as replayed
    from mcptrio.testing.scripts import AnsweredQuestion as AnsweredQuestion
    from mcptrio.testing.scripts import FormAnswer as FormAnswer
    from mcptrio.testing.scripts import QuestionKind as QuestionKind
    from mcptrio.testing.scripts import SampleAnswer as SampleAnswer
    from mcptrio.testing.scripts import Script as Script
    from mcptrio.testing.server_spec import ServerSpec as ServerSpec
    from mcptrio.testing.servers import Connect as Connect
    from mcptrio.testing.servers import Served as Served
    from mcptrio.testing.servers import open_served as open_served

_HOMES = {
    # Revisions, transports and clock of a test
    "Case": "mcptrio.testing.cases",
    "HANDSHAKE": "mcptrio.testing.cases",
    "MODERN": "mcptrio.testing.cases",
    "REVISIONS": "mcptrio.testing.cases",
    "TRANSPORTS": "mcptrio.testing.cases",
    "Transport": "mcptrio.testing.cases",
    "cases_of": "mcptrio.testing.cases",
    "run_jumping": "mcptrio.testing.clock",
    # A server and its clients
    "Connect": "mcptrio.testing.servers",
    "KillableServer": "mcptrio.testing.killable",
    "Served": "mcptrio.testing.servers",
    "ServerSpec": "mcptrio.testing.server_spec",
    "open_killable": "mcptrio.testing.killable",
    "open_served": "mcptrio.testing.servers",
    # Scripted answers
    "AnsweredQuestion": "mcptrio.testing.scripts",
    "FormAnswer": "mcptrio.testing.scripts",
    "QuestionKind": "mcptrio.testing.scripts",
    "SampleAnswer": "mcptrio.testing.scripts",
    "Script": "mcptrio.testing.scripts",
    # Faults
    "Fault": "mcptrio.testing.faults",
    "FaultyChannel": "mcptrio.testing.faulty_channel",
    "Which": "mcptrio.testing.faults",
    "cut": "mcptrio.testing.faults",
    "delay": "mcptrio.testing.faults",
    "drop": "mcptrio.testing.faults",
    "duplicate": "mcptrio.testing.faults",
    "garble": "mcptrio.testing.faults",
    "sometimes": "mcptrio.testing.faults",
    # Leaks and recordings
    "Holdings": "mcptrio.testing.leaks",
    "Recording": "mcptrio.testing.recording",
    "adopt_orphans": "mcptrio.testing.leaks",
    "nothing_left": "mcptrio.testing.leaks",
    "replayed": "mcptrio.testing.replay",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
