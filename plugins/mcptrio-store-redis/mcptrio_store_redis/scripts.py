"""The Lua scripts of sessions, events, effects and quotas. Each is one atomic step.

KEYS[1] is the prefix of the keys of a session. The key ``:m`` has sums, ``:s`` the streams in the order in which they
lose events, ``:x`` the expiry of their events, ``:h:NAME`` the state of a stream and ``:e:NAME`` its events.

Source: redis.io, "Scripting with Lua"; effects of scripts are replicated, so they may use TIME.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import sha1
from typing import Final

from attrs import field, frozen

__all__ = ["STORE_SCRIPTS", "LuaScript"]

EVENT_COST: Final = 160
"""Bytes that an event costs in addition to its data, as in memory."""
MAX_AGED: Final = 4
"""Streams that each append checks for expiry."""


@frozen
class LuaScript:
    name: str
    text: str = field(repr=False)

    @cached_property
    def sha(self) -> str:
        """The name by which EVALSHA runs the script."""
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


# The order of eviction is one number for each stream: the microsecond of its last event, and open streams after all
# complete ones. Both together stay below 2**53, so a double holds them exactly.
_STORE: Final = f"""
local OPEN = 4e15
local base = KEYS[1]
local m, s, x = base .. ':m', base .. ':s', base .. ':x'

local function micros()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function free(name, bytes)
  redis.call('HINCRBY', base .. ':h:' .. name, 'b', -bytes)
  redis.call('HINCRBY', m, 'b', -bytes)
end

local function forget(name)
  redis.call('DEL', base .. ':h:' .. name, base .. ':e:' .. name)
  redis.call('ZREM', s, name)
  redis.call('ZREM', x, name)
end

-- Drop events at the beginning of a stream until `excess` bytes are free. Return the bytes freed.
local function drop(name, excess, keep)
  local h, e = base .. ':h:' .. name, base .. ':e:' .. name
  local state = redis.call('HMGET', h, 'c', 'b')
  local length = redis.call('LLEN', e)
  local freed, count, limit = 0, 0, length - keep
  if length == 0 then
    freed = tonumber(state[2] or 0)
  end
  while count < limit and freed < excess do
    local page = redis.call('LRANGE', e, count, math.min(count + 63, limit - 1))
    for _, data in ipairs(page) do
      freed = freed + #data + {EVENT_COST}
      count = count + 1
      if freed >= excess then break end
    end
  end
  if count > 0 then redis.call('LTRIM', e, count, -1) end
  if freed > 0 then free(name, freed) end
  if state[1] ~= '0' and count == length then forget(name) end
  return freed
end

-- A due time in :x is checked against the last event, so an append to a known stream need not change it.
local function expire(now, age, order, most)
  local freed = 0
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', x, '-inf', now, 'LIMIT', 0, most)) do
    local h = base .. ':h:' .. name
    local state = redis.call('HMGET', h, 'c', 'b', 'r', 't')
    local due = tonumber(state[4] or 0) + age * 1000
    if not state[3] and due > now then
      redis.call('ZADD', x, due, name)
    else
      redis.call('DEL', base .. ':e:' .. name)
      if state[2] then
        free(name, tonumber(state[2]))
        freed = freed + tonumber(state[2])
      end
      if state[1] == '0' then
        -- The positions of an open stream are never reused.
        redis.call('ZADD', s, order + OPEN, name)
        redis.call('ZADD', x, now + age * 1000, name)
        redis.call('HSET', h, 't', now)
      else
        forget(name)
      end
    end
  end
  return freed
end

local function trim(name, e, excess)
  local freed = 0
  for from = 0, excess - 1, 64 do
    for _, each in ipairs(redis.call('LRANGE', e, from, math.min(from + 63, excess - 1))) do
      freed = freed + #each + {EVENT_COST}
    end
  end
  redis.call('LTRIM', e, excess, -1)
  free(name, freed)
  return freed
end

-- Store events at the end of a stream. `limits`: events of the stream, bytes of the session, milliseconds of its age.
-- `state`: next position, completeness, writer, bytes, will (the last event if the writer ends without completing the
-- stream), time of the last event, time at which the expiry of its keys was last extended, number of the last append.
local function store(name, state, limits, writer, last, will, data, append)
  local h, e = base .. ':h:' .. name, base .. ':e:' .. name
  local now = micros()
  local sums = redis.call('HMGET', m, 'q', 'b', 't')
  local order = math.max(now, tonumber(sums[1] or 0) + 1)
  local age, size, length = limits[3], #data * {EVENT_COST}, 0
  for from = 1, #data, 1000 do
    length = redis.call('RPUSH', e, unpack(data, from, math.min(from + 999, #data)))
  end
  for _, each in ipairs(data) do size = size + #each end
  local following = tonumber(state[1] or 0) + #data
  local bytes = tonumber(state[4] or 0) + size
  local kept = tonumber(state[7] or 0)
  local is_stale = now - kept > age * 500
  if is_stale then kept = now end
  -- The keys of a stream live for one to one and a half ages after its last event, its state for half an age more.
  if is_stale or length == #data then redis.call('PEXPIRE', e, math.floor(age * 1.5)) end
  if state[1] then
    redis.call('HSET', h, 'n', following, 'c', last, 'b', bytes, 'w', will, 't', now, 'p', kept, 'a', append)
  else
    local count = redis.call('HINCRBY', m, 'k', 1)
    redis.call(
      'HSET', h, 'n', following, 'c', last, 'b', bytes, 'w', will, 't', now, 'p', kept, 'a', append,
      'o', writer, 'k', count
    )
    redis.call('ZADD', x, now + age * 1000, name)
  end
  if is_stale then redis.call('PEXPIRE', h, math.floor(age * 2.5)) end
  redis.call('ZADD', s, last == '1' and order or order + OPEN, name)
  local total = tonumber(sums[2] or 0) + size
  if now - tonumber(sums[3] or 0) > age * 500 then
    redis.call('HSET', m, 'q', order, 'b', total, 't', now)
    for _, key in ipairs({{m, s, x}}) do redis.call('PEXPIRE', key, math.floor(age * 2.5)) end
  else
    redis.call('HSET', m, 'q', order, 'b', total)
  end
  if length > limits[1] then total = total - trim(name, e, length - limits[1]) end
  local excess = total - expire(now, age, order, {MAX_AGED}) - limits[2]
  if excess > 0 then
    for _, each in ipairs(redis.call('ZRANGE', s, 0, -1)) do
      if excess <= 0 then break end
      excess = excess - drop(each, excess, each == name and 1 or 0)
    end
  end
  return following
end

local function state_of(name)
  return redis.call('HMGET', base .. ':h:' .. name, 'n', 'c', 'o', 'b', 'w', 't', 'p', 'a')
end

local function publish(channel, message) if channel ~= '' then redis.call('PUBLISH', channel, message) end end
"""

APPEND: Final = LuaScript(
    "append",
    # ARGV: stream, position or -1, writer, last, has a will, will, channel, message, three limits, the number of the
    # append among those of the writer, data …
    # Returns the position after the events; -1 if the stream is complete, -2 if its events were dropped, -3 if another
    # replica writes it, -4 if the position is no longer that of the stream: an earlier append, which got no answer, was
    # stored in the meantime.
    _STORE
    + """
local name, at, writer, last = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local data = {}
for i = 13, #ARGV do data[#data + 1] = ARGV[i] end
local state = state_of(name)
local following = tonumber(state[1] or 0)
-- The writer repeats an append that got no answer.
if at >= 0 and state[8] == ARGV[12] and state[3] == writer and state[2] == last then return following end
if state[2] == '1' then return -1 end
if at >= 0 then
  if following < at then return -2 end
  if state[1] and state[3] ~= writer then return -3 end
  if at ~= following then return -4 end
end
local will = state[5] or ''
if ARGV[5] == '1' then will = ARGV[6] end
if last == '1' then will = '' end
local limits = {tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])}
local following = store(name, state, limits, writer, last, will, data, ARGV[12])
publish(ARGV[7], ARGV[8])
return following
""",
)

SETTLE: Final = LuaScript(
    "settle",
    # ARGV: stream, its writer, channel, message, three limits. Returns 1 if the stream has been completed.
    _STORE
    + """
local name, writer = ARGV[1], ARGV[2]
local state = state_of(name)
if not state[1] or state[2] == '1' or state[3] ~= writer then return 0 end
local limits = {tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])}
store(name, state, limits, writer, '1', '', {state[5] or ''}, '')
publish(ARGV[3], ARGV[4])
return 1
""",
)

READ: Final = LuaScript(
    "read",
    # ARGV: stream, position, 1 if the position must be known, events and bytes of a page, milliseconds for which a
    # complete stream is kept after it was read, milliseconds for which the positions are kept after a read. Returns the
    # position of the first event, 1 if the last one ends the stream, and the events; nothing if the stream or the
    # position is unknown.
    """
local base, name, position = KEYS[1], ARGV[1], tonumber(ARGV[2])
local h, e = base .. ':h:' .. name, base .. ':e:' .. name
local state = redis.call('HMGET', h, 'n', 'c', 'r')
if not state[1] then return false end
if redis.call('PTTL', h) < tonumber(ARGV[7]) then
  for _, key in ipairs({h, base .. ':m', base .. ':s', base .. ':x'}) do redis.call('PEXPIRE', key, ARGV[7] * 2) end
end
local following = tonumber(state[1])
local first = following - redis.call('LLEN', e)
if ARGV[3] == '1' and (position < first or position > following) then return false end
local from = math.max(position, first)
local page = redis.call('LRANGE', e, from - first, from - first + tonumber(ARGV[4]) - 1)
local bytes, count = 0, 0
for _, data in ipairs(page) do
  bytes = bytes + #data
  if count > 0 and bytes > tonumber(ARGV[5]) then break end
  count = count + 1
end
local is_last = state[2] == '1' and from + count >= following
if is_last and not state[3] then
  local linger = tonumber(ARGV[6])
  if redis.call('PTTL', e) > linger then
    redis.call('PEXPIRE', e, linger)
    local t = redis.call('TIME')
    -- A full engine may refuse these two; then the stream expires without being marked.
    redis.pcall('ZADD', base .. ':x', 'XX', string.format('%.0f', t[1] * 1000000 + t[2] + linger * 1000), name)
    redis.pcall('HSET', h, 'r', '1')
  end
end
local answer = {from, is_last and 1 or 0}
for i = 1, count do answer[i + 2] = page[i] end
return answer
""",
)

COMPLETED: Final = LuaScript(
    "completed",
    # ARGV: stream. Returns the complete streams that began after it, in the order of their beginning.
    """
local base = KEYS[1]
local began = tonumber(redis.call('HGET', base .. ':h:' .. ARGV[1], 'k') or 'x')
if not began then return {} end
local found = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', base .. ':s', '-inf', '(4e15')) do
  local number = tonumber(redis.call('HGET', base .. ':h:' .. name, 'k') or 0)
  if number > began and redis.call('EXISTS', base .. ':e:' .. name) == 1 then
    found[#found + 1] = {number, name}
  end
end
table.sort(found, function(one, other) return one[1] < other[1] end)
local names = {}
for i, each in ipairs(found) do names[i] = each[2] end
return names
""",
)

DROP: Final = LuaScript(
    "drop",
    """
local base = KEYS[1]
for _, name in ipairs(redis.call('ZRANGE', base .. ':s', 0, -1)) do
  redis.call('UNLINK', base .. ':h:' .. name, base .. ':e:' .. name)
end
return redis.call('UNLINK', base .. ':m', base .. ':s', base .. ':x')
""",
)

KEEP_POSITION: Final = LuaScript(
    "keep_position",
    # ARGV: stream, milliseconds. Keeps the position of an open stream without events.
    """
local base = KEYS[1]
for _, key in ipairs({':h:' .. ARGV[1], ':m', ':s', ':x'}) do redis.call('PEXPIRE', base .. key, ARGV[2]) end
return 1
""",
)

SAVE: Final = LuaScript(
    "save",
    # ARGV: the generation that must be stored, the new one and the record, milliseconds. Returns 1 if stored.
    """
local stored = redis.call('GET', KEYS[1])
local generation = stored and string.match(stored, '^%d+') or '0'
if generation ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
""",
)

ADMIT: Final = LuaScript(
    "admit",
    # ARGV: tag, milliseconds, the maximum number of sessions, the number of tags to return. Returns {1} if the session
    # is admitted, or {0, tags that may have expired}. The records are in other slots, so the caller reads them.
    """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
  return {1}
end
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, tonumber(ARGV[4]))
return {0, unpack(found)}
""",
)

DUE_SESSIONS: Final = LuaScript(
    "due_sessions",
    # ARGV: the number of tags to return. Returns the tags of sessions that may have expired.
    """
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', t[1] .. '000', 'LIMIT', 0, tonumber(ARGV[1]))
""",
)

UPDATE_SESSIONS: Final = LuaScript(
    "update_sessions",
    # ARGV: tags, each with the milliseconds until its record expires; -2 if the record does not exist.
    """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 1, #ARGV, 2 do
  if tonumber(ARGV[i + 1]) < 0 then
    redis.call('ZREM', KEYS[1], ARGV[i])
  else
    redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now + ARGV[i + 1]), ARGV[i])
  end
end
return 1
""",
)

CLAIM: Final = LuaScript(
    "claim",
    # A value is R, the replica, a space, the token of the claim; or D and the result.
    # ARGV: replica and token, milliseconds. Returns {1} if claimed, {2, result} if done, {0, replica} if running.
    """
local value = redis.call('GET', KEYS[1])
if not value then
  redis.call('SET', KEYS[1], 'R' .. ARGV[1], 'PX', ARGV[2])
  return {1}
end
if string.sub(value, 1, 1) == 'D' then return {2, string.sub(value, 2)} end
return {0, string.match(value, '^R(%S*)')}
""",
)

FINISH: Final = LuaScript(
    "finish",
    # ARGV: replica, milliseconds, result. Stores the result if the replica has the claim, or if the claim has expired.
    """
local value = redis.call('GET', KEYS[1])
if not value or string.match(value, '^R(%S*)') == ARGV[1] then
  redis.call('SET', KEYS[1], 'D' .. ARGV[3], 'PX', ARGV[2])
end
return 1
""",
)

RELEASE: Final = LuaScript(
    "release",
    # ARGV: replica and token; without a token, any claim of the replica.
    """
local value = redis.call('GET', KEYS[1])
if value and (value == 'R' .. ARGV[1] or string.match(value, '^R(%S*)') == ARGV[1]) then
  redis.call('DEL', KEYS[1])
end
return 1
""",
)

TAKE: Final = LuaScript(
    "take",
    # The generic cell rate algorithm. ARGV: microseconds between two requests, and the microseconds by which a request
    # may be early. Returns 0 if one was taken, otherwise the microseconds until the request may be repeated.
    """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local each, early = tonumber(ARGV[1]), tonumber(ARGV[2])
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if due - now > early then return string.format('%.0f', math.ceil(due - now - early)) end
local following = due + each
redis.call('SET', KEYS[1], string.format('%.3f', following), 'PX', math.ceil((following - now) / 1000) + 1)
return '0'
""",
)

STORE_SCRIPTS: Final = (
    APPEND, SETTLE, READ, COMPLETED, DROP, KEEP_POSITION, SAVE, ADMIT, DUE_SESSIONS, UPDATE_SESSIONS, CLAIM, FINISH,
    RELEASE, TAKE,
)  # fmt: skip
"""All scripts of this module."""
