"""The records of the authorization server, in a file and in a database: one contract for both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from mcptrio_authserver import Config, LedgerSettings
from mcptrio_authserver.ledger import Ledger, Store
from mcptrio_authserver.logins import count_login, forgive_login
from mcptrio_authserver.rates import Rate, count_attempt, take_back_attempt
from mcptrio_authserver.refusals import Refusal
from mcptrio_authserver.store_opening import open_store, user_directory
from mcptrio_authserver.users import User

from .conftest import Clock

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opener(tmp_path: Path, ledger: LedgerSettings | None, clock: Clock) -> Opener:
    """Opens the store; twice for two servers."""
    return partial(open_store, tmp_path, ledger, clock=clock)


async def test_failed_transaction_leaves_no_trace(opener: Opener, clock: Clock) -> None:
    async with opener() as store:

        def fail(ledger: Ledger) -> None:
            ledger.put("a", "1", {}, until=clock.now + 10)
            raise LookupError

        def refuse(ledger: Ledger) -> None:
            ledger.put("a", "2", {"x": 1}, until=clock.now + 10)
            raise Refusal("invalid_grant", "it was used before")

        with pytest.raises(LookupError):
            await store.transact(fail)
        with pytest.raises(Refusal):
            await store.transact(refuse)

        assert await store.transact(lambda ledger: ledger.get("a", "1")) is None
        assert await store.transact(lambda ledger: ledger.get("a", "2")) == {"x": 1}
        clock.now += 11
        assert await store.transact(lambda ledger: ledger.get("a", "2")) is None
        assert await store.delete_expired() == 1
        assert await store.delete_expired() == 0


async def test_record_is_found_by_its_key_and_by_its_group(opener: Opener, clock: Clock) -> None:
    until = clock.now + 10
    async with opener() as store:

        def work(ledger: Ledger) -> None:
            for key, group in (("b", "g"), ("a", "g"), ("c", "h"), ("gone", "g")):
                ledger.put("x", key, {"key": key}, until=until if key != "gone" else clock.now, group=group)
            ledger.put("y", "a", {"key": "of another kind"}, until=until, group="g")
            ledger.put("x", "b", {"key": "b", "changed": True}, until=until, group="g")

            assert ledger.get("x", "b") == {"key": "b", "changed": True}
            assert ledger.get("x", "gone") is None
            assert [record["key"] for record in ledger.list("x")] == ["b", "a", "c"]
            assert [record["key"] for record in ledger.list("x", "g")] == ["b", "a"]
            assert (ledger.count("x"), ledger.count("x", "g"), ledger.count("x", "none")) == (3, 2, 0)
            assert ledger.delete("x", "c")
            assert not ledger.delete("x", "c")
            assert ledger.delete_group("x", "g") == 3
            assert ledger.delete_group("x", None) == 0
            assert ledger.delete_group("y", None) == 1

        await store.transact(work)


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "é\N{GRINNING FACE}", "' OR 1=1 --", "%s", "x" * 10_000])
async def test_any_text_is_a_key_and_a_value(opener: Opener, clock: Clock, text: str) -> None:
    async with opener() as store:

        def work(ledger: Ledger) -> None:
            ledger.put("a", text, {"text": text}, until=clock.now + 10, group=text)
            assert ledger.get("a", text) == {"text": text}
            assert ledger.list("a", text) == [{"text": text}]
            assert ledger.get("a", f"{text}\N{REPLACEMENT CHARACTER}") is None

        await store.transact(work)
        assert await store.transact(lambda ledger: ledger.delete("a", text))


async def test_oldest_records_of_a_group_are_evicted_over_the_limit(opener: Opener, clock: Clock) -> None:
    async with opener() as store:

        def fill(ledger: Ledger) -> tuple[int, int, bool]:
            for number in range(10):
                ledger.put("a", str(number), {}, until=clock.now + 10, group="g", max_records=3)
                ledger.put("a", f"other {number}", {}, until=clock.now + 10, group="h")
            return ledger.count("a", "g"), ledger.count("a"), ledger.get("a", "9") is not None

        assert await store.transact(fill) == (3, 13, True)


async def test_counts_of_two_servers_at_once_are_all_counted(opener: Opener, clock: Clock) -> None:
    rate = Rate(kind="x", max_attempts=40, seconds=60)
    async with opener() as one, opener() as other:
        waits: list[float] = []

        async def count(store: Store) -> None:
            for _ in range(21):
                wait = await store.transact(lambda ledger: count_attempt(ledger, rate, "key", clock.now))
                waits.append(wait)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count, one)
            nursery.start_soon(count, other)

        assert sorted(waits) == [0] * 40 + [60] * 2


async def test_name_used_at_both_servers_at_once_is_used_once(opener: Opener, clock: Clock) -> None:
    """Codes, proofs and assertions are used in this way: a check, then a write, in one transaction."""
    async with opener() as one, opener() as other:
        first: list[str] = []

        def use(ledger: Ledger, name: str) -> bool:
            is_new = ledger.get("used", name) is None and ledger.count("used", name) == 0
            ledger.put("used", name, {}, until=clock.now + 10, group=name)
            return is_new

        async def spend(store: Store, name: str) -> None:
            if await store.transact(partial(use, name=name)):
                first.append(name)

        for name in map(str, range(20)):
            async with trio.open_nursery() as nursery:
                for store in (one, other, one, other):
                    nursery.start_soon(spend, store, name)

        assert sorted(first) == sorted(map(str, range(20)))


async def test_user_is_not_locked_out_from_one_address(opener: Opener, clock: Clock) -> None:
    config = Config()
    async with opener() as store:

        def attempt(ledger: Ledger) -> tuple[float, float, float]:
            flood = [count_login(ledger, config, "ada", "203.0.113.7", clock.now) for _ in range(200)]
            assert flood[:6] == [0] * 5 + [900]
            elsewhere = count_login(ledger, config, "ada", "198.51.100.1", clock.now)
            same_place = count_login(ledger, config, "bob", "203.0.113.7", clock.now)
            for number in range(100):
                count_login(ledger, config, "ada", f"192.0.2.{number}", clock.now)
            return elsewhere, same_place, count_login(ledger, config, "ada", "198.51.100.2", clock.now)

        assert await store.transact(attempt) == (0, 900, 900)


async def test_successful_logins_do_not_lock_a_user_out(opener: Opener, clock: Clock) -> None:
    """Many logins from an office, or of one user, are no failures; failed ones still count."""
    config = Config()
    async with opener() as store:

        def attempt(ledger: Ledger) -> None:
            for number in range(200):
                office, anywhere = ("203.0.113.7", f"192.0.2.{number}")
                for name, address in ((f"user {number}", office), ("ada", anywhere)):
                    assert count_login(ledger, config, name, address, clock.now) == 0
                    forgive_login(ledger, config, name, address)
            clock.now += 100
            for number in range(50):
                for name, address in ((f"guess {number}", "203.0.113.7"), ("ada", f"198.51.100.{number}")):
                    assert count_login(ledger, config, name, address, clock.now) == 0
            assert count_login(ledger, config, "bob", "203.0.113.7", clock.now) == 800, "what it was, not anew"
            assert count_login(ledger, config, "ada", "198.51.100.99", clock.now) == 800

        await store.transact(attempt)


async def test_successful_login_cancels_one_failed_attempt(opener: Opener, clock: Clock) -> None:
    config = Config()
    rate = Rate(kind="x", max_attempts=1, seconds=60)
    async with opener() as store:

        def attempt(ledger: Ledger) -> None:
            for number in range(49):
                assert count_login(ledger, config, f"guess {number}", "203.0.113.7", clock.now) == 0
            assert count_login(ledger, config, "bob", "203.0.113.7", clock.now) == 0
            forgive_login(ledger, config, "bob", "203.0.113.7")
            assert count_login(ledger, config, "ada", "203.0.113.7", clock.now) == 0
            assert count_login(ledger, config, "bob", "203.0.113.7", clock.now) == 900
            take_back_attempt(ledger, rate, "key")
            assert count_attempt(ledger, rate, "key", clock.now) == 0, "there was none"
            take_back_attempt(ledger, rate, "key")
            take_back_attempt(ledger, rate, "key")
            assert [count_attempt(ledger, rate, "key", clock.now) for _ in range(2)] == [0, 60], "never below 0"

        await store.transact(attempt)


async def test_users_are_added_changed_and_removed(
    opener: Opener, ledger: LedgerSettings | None, tmp_path: Path
) -> None:
    ada = User(name="ada", hash="$argon2id$1")
    async with opener() as store:
        directory = user_directory(tmp_path, ledger, store)
        await directory.change(dict.clear)
        await directory.change(lambda users: users.update({"ada": ada, "bob": User(name="bob", hash="$argon2id$2")}))
        await directory.change(lambda users: users.update({"ada": User(name="ada", hash="$argon2id$3", scopes=("x",))}))
        assert await directory.change(lambda users: users.pop("bob").hash) == "$argon2id$2"

        assert await directory.users() == {"ada": User(name="ada", hash="$argon2id$3", scopes=("x",))}
        with pytest.raises(ValueError, match="expected a name"):
            await directory.change(lambda users: users.update({"A b": User(name="A b", hash="$argon2id$1")}))
        assert [*await directory.users()] == ["ada"]
