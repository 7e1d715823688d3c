"""The Lua scripts of leases. Each is one atomic step. KEYS[1] is the sorted set of the replicas.

The key with the suffix ``:who:`` and the id of a replica has its start time, process and host. It expires some time
after the replica was killed.
"""

from __future__ import annotations

from typing import Final

from mcptrio.stores import MAX_LISTED
from mcptrio_store_redis.scripts import LuaScript

__all__ = ["LEASE_SCRIPTS", "REMOVE_REPLICA", "RENEW_LEASE"]

RENEW_LEASE: Final = LuaScript(
    "renew_lease",
    # ARGV: replica, milliseconds of its lease, milliseconds since its start, its process and host.
    # Returns the time of the engine, all replicas with the ends of their leases, and the entries of those whose leases
    # end last.
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

REMOVE_REPLICA: Final = LuaScript(
    "remove_replica",
    # KEYS: replicas, the open streams of one replica. ARGV: that replica, 1 if the caller is that replica.
    # Returns 1 if the replica was removed.
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

LEASE_SCRIPTS: Final = (RENEW_LEASE, REMOVE_REPLICA)
"""All scripts of this module."""
