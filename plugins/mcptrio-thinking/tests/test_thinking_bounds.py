"""The stored sequences stay within the limits."""

from __future__ import annotations

import pytest
from mcptrio_thinking import Config
from mcptrio_thinking.owners import SequenceOwner
from mcptrio_thinking.sequences import Sequences
from mcptrio_thinking.thoughts import Thought

ADA = SequenceOwner("principal:ada", "1")
BOB = SequenceOwner("principal:bob", None)


def thought(text: str = "x") -> Thought:
    return Thought(thought=text, thoughtNumber=1, totalThoughts=1, nextThoughtNeeded=False)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_least_recently_used_sequence_is_evicted_first() -> None:
    sequences = Sequences(Config(max_sequences=2), Clock())
    for id in ("a", "b"):
        sequences.add(ADA, id, thought())
    sequences.find(ADA, "a")
    sequences.add(ADA, "c", thought())

    assert sequences.ids(ADA) == ["c", "a"]


def test_caller_over_its_limit_evicts_its_own_sequences() -> None:
    sequences = Sequences(Config(max_bytes=10_000), Clock())
    sequences.add(BOB, "b", thought())
    for id in "pqrstuvw":
        sequences.add(ADA, id, thought("x" * 2000))

    assert sequences.ids(ADA) == ["w", "v", "u", "t"]
    assert sequences.ids(BOB) == ["b"]
    for _ in range(3):
        sequences.add(ADA, "w", thought("x" * 2000))
    assert sequences.ids(ADA) == ["w"]


def test_full_sequence_drops_its_earliest_thoughts() -> None:
    by_bytes, by_number = Sequences(Config(max_bytes=10_000), Clock()), Sequences(Config(max_thoughts=4), Clock())
    for number in range(6):
        for sequences in (by_bytes, by_number):
            sequences.add(ADA, "w", thought(str(number) * 2000))

    for sequences in (by_bytes, by_number):
        sequence = sequences.find(ADA, "w")
        assert sequence is not None
        assert (sequence.dropped, sequence.length, sequence.size) == (2, 6, 9200)
        assert [each.thought[0] for each in sequence.thoughts] == ["2", "3", "4", "5"]
    assert by_number.clear(ADA, "w") == 6


def test_thought_above_the_limit_is_kept_alone() -> None:
    sequences = Sequences(Config(max_bytes=10_000), Clock())
    for _ in range(2):
        assert len(sequences.add(ADA, "w", thought("x" * 15_000)).thoughts) == 1


def test_number_of_callers_is_limited() -> None:
    sequences = Sequences(Config(max_callers=3), Clock())
    for number in range(10):
        sequences.add(SequenceOwner(f"session:{number}", f"session:{number}"), "s", thought())

    assert len(sequences) == 3


def test_sequences_of_a_principal_are_available_in_every_session() -> None:
    sequences = Sequences(Config(), Clock())
    elsewhere = SequenceOwner(ADA.owner, "2")
    sequences.add(ADA, "a", thought())

    assert sequences.find(elsewhere, "a") is not None
    assert sequences.ids(elsewhere) == ["a"]
    sequences.add(elsewhere, "b", thought())
    assert (sequences.latest(ADA), sequences.latest(elsewhere)) == ("a", "b")
    assert sequences.latest(BOB) is None


def test_expired_sequence_is_removed() -> None:
    clock = Clock()
    sequences = Sequences(Config(ttl=10), clock)
    sequences.add(ADA, "a", thought())
    clock.now = 5
    sequences.add(ADA, "b", thought())
    clock.now = 11

    assert sequences.ids(ADA) == ["b"]
    assert sequences.latest(ADA) == "b"
    clock.now = 20
    assert sequences.ids(ADA) == []
    assert len(sequences) == 0


@pytest.mark.parametrize(
    "settings", [{"ttl": 0.0}, {"max_thoughts": 0}, {"max_bytes": 10}, {"max_thought_bytes": 2**40}]
)
def test_invalid_settings_are_refused(settings: dict[str, float]) -> None:
    [name] = settings
    with pytest.raises(ValueError, match=name):
        Config(**settings)  # type: ignore[arg-type]
