"""The events that observers receive when tasks end, and how an operator cancels one."""

from __future__ import annotations

from tests.error_codes import INTERNAL_ERROR
from tests.interaction.applies import MODERN, only
from tests.interaction.serving import Serve
from tests.interaction.test_observers import RecordingObserver
from tests.interaction.test_tasks import CAPABLE, ONLY, Site, begin, ended


@only(revisions=MODERN, because=ONLY)
async def test_observer_is_notified_how_each_task_ends(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)
    serve.server.add_observer(watching := RecordingObserver())
    ids = [(await begin(peer, name))["taskId"] for name in ("dig_in_thread", "refuse", "break_off", "dig_in_time")]
    for id in ids:
        await ended(peer, id)
    await peer.eventually(lambda: len(watching.tasks) == 4)

    found = {each.label: each for each in watching.tasks}
    assert {name: (each.outcome, each.code) for name, each in found.items()} == {
        "dig_in_thread": ("result", None),
        "refuse": ("tool_error", None),
        "break_off": ("error", INTERNAL_ERROR),
        "dig_in_time": ("timeout", INTERNAL_ERROR),
    }
    assert found["break_off"].message == "no site"
    assert {each.id for each in watching.tasks} == {id[:6] for id in ids}
    assert {each.client for each in watching.tasks} == {"raw"}


@only(revisions=MODERN, because=ONLY)
async def test_operator_cancels_a_task(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    serve.server.add_observer(watching := RecordingObserver())
    id = (await begin(peer, "dig"))["taskId"]
    await peer.eventually(lambda: site.running == 1)
    (status,) = serve.server.status.tasks

    assert serve.server.cancel_task("other", "for a test") is False
    assert serve.server.cancel_task(str(status.id), "for a test") is True

    state = await ended(peer, id)
    assert (state["status"], state["statusMessage"]) == ("cancelled", "for a test")
    assert site.ended == ["for a test"]
    await peer.eventually(lambda: bool(watching.tasks))
    assert (watching.tasks[0].outcome, watching.tasks[0].message) == ("cancelled", "for a test")
    assert serve.server.cancel_task(str(status.id), "again") is False
