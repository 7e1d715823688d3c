"""The Lua scripts of leases. Each is one atomic step. KEYS[1] is the sorted set of the replicas.

``:who:`` and the id of a replica follow from it: when it began, its process and its host. An entry outlives a replica
that is killed, and then expires.
"""

from __future__ import annotations

from typing import Final

from mcptrio.stores import MAX_LISTED
from mcptrio_store_redis.scripts import LuaScript

__all__ = ["BEAT", "FORGET", "LEASE_SCRIPTS"]

BEAT: Final = LuaScript(
    "beat",
    # ARGV: replica, milliseconds of its lease, milliseconds since it began, its process and its host.
    # Returns the time of the engine, replicas and when their leases end, and entries of those whose leases end last.
    f"""
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
local own = string.format('%.0f', now - ARGV[3]) .. ' ' .. ARGV[4]
redis.call('SET', KEYS[1] .. ':who:' .. ARGV[1], own, 'PX', string.format('%.0f', 10 * ARGV[2]))
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local entries = {{}}
for at = #all - 1, math.max(1, #all - {2 * MAX_LISTED} + 1), -2 do
  table.insert(entries, redis.call('GET', KEYS[1] .. ':who:' .. all[at]) or '')
end
return {{string.format('%.0f', now), all, entries}}
""",
)

FORGET: Final = LuaScript(
    "forget",
    # KEYS: replicas, the open streams of one. ARGV: that replica, 1 if it leaves itself. Returns 1 if it is removed.
    """
local t = redis.call('TIME')
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if redis.call('SCARD', KEYS[2]) > 0 then return 0 end
if ARGV[2] == '1' or (ends and tonumber(ends) < t[1] * 1000 + math.floor(t[2] / 1000)) then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('DEL', KEYS[1] .. ':who:' .. ARGV[1])
  return 1
end
return 0
""",
)

LEASE_SCRIPTS: Final = (BEAT, FORGET)
"""The scripts, to load them together."""
