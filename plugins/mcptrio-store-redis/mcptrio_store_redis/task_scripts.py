"""The Lua scripts of tasks. Each is one atomic step.

The keys of all tasks have one hash tag, so a script may use all of them in a cluster too. KEYS[1] is their prefix. The
key ``:m`` counts creations, ``:x`` has all tasks by expiry, and ``:t:TAG`` one task. ``:q:TOOL`` has the queued and
``:r:TOOL`` the running tasks of a tool, ``:l`` the tools with such tasks. ``:o:OWNER`` has the tasks of an owner by
creation, ``:a:OWNER`` those that have not ended. ``:h:REPLICA`` has the tasks that a replica holds, ``:h`` the replicas
that hold tasks.

A task is a hash: id, owner and its tag, tool, state, created and expires in seconds, fence, generation, holder, token
of the last creation or claim, number of its creation, data.
"""

from __future__ import annotations

from typing import Final

from mcptrio_store_redis.scripts import LuaScript

__all__ = ["FIELDS", "TASK_SCRIPTS"]

FIELDS: Final = ("id", "owner", "tool", "state", "created", "expires", "fence", "generation", "data")
"""The fields of a record, in the order in which the scripts return them."""

# Times have six decimals, and a number of creation is below 2**53, so a double holds both exactly.
_COMMON: Final = """
local base = KEYS[1]

local function clock()
  local t = redis.call('TIME')
  return t[1] + t[2] / 1000000
end

local function seconds(value) return string.format('%.6f', value) end

local function record(tag)
  return redis.call('HMGET', base .. ':t:' .. tag, 'id', 'owner', 'tool', 'state', 'created', 'expires', 'fence',
    'generation', 'data')
end

-- Note in the indexes that a task has left a state.
local function leave(tag, tool, state, holder)
  if state == 'queued' then
    redis.call('ZREM', base .. ':q:' .. tool, tag)
  elseif state == 'running' then
    redis.call('SREM', base .. ':r:' .. tool, tag)
    redis.call('SREM', base .. ':h:' .. holder, tag)
    if redis.call('SCARD', base .. ':h:' .. holder) == 0 then redis.call('SREM', base .. ':h', holder) end
  end
end

local function enter(tag, tool, state, holder, number)
  if state == 'queued' then
    redis.call('ZADD', base .. ':q:' .. tool, number, tag)
  elseif state == 'running' then
    redis.call('SADD', base .. ':r:' .. tool, tag)
    redis.call('SADD', base .. ':h:' .. holder, tag)
    redis.call('SADD', base .. ':h', holder)
  end
  if redis.call('ZCARD', base .. ':q:' .. tool) + redis.call('SCARD', base .. ':r:' .. tool) == 0 then
    redis.call('SREM', base .. ':l', tool)
  else
    redis.call('SADD', base .. ':l', tool)
  end
end

local function queue(tag, found)
  leave(tag, found[1], 'running', found[2])
  redis.call('HSET', base .. ':t:' .. tag, 'state', 'queued', 'holder', '', 'generation', found[3] + 1)
  enter(tag, found[1], 'queued', '', found[4])
end

-- Return the id, and whether the task was running.
local function drop(tag)
  local t = base .. ':t:' .. tag
  local found = redis.call('HMGET', t, 'id', 'tool', 'state', 'holder', 'owner_tag')
  redis.call('DEL', t)
  redis.call('ZREM', base .. ':x', tag)
  if not found[1] then return false, false end
  leave(tag, found[2], found[3], found[4])
  enter(tag, found[2], 'ended', '', 0)
  redis.call('ZREM', base .. ':o:' .. found[5], tag)
  redis.call('SREM', base .. ':a:' .. found[5], tag)
  return found[1], found[3] == 'running'
end

-- Drop expired tasks. Return {whether one was running, ids ...}.
local function expire(now, most)
  local answer = {0}
  for _, tag in ipairs(redis.call('ZRANGEBYSCORE', base .. ':x', '-inf', seconds(now), 'LIMIT', 0, most)) do
    local id, was_running = drop(tag)
    answer[#answer + 1] = id or ''
    if was_running then answer[1] = 1 end
  end
  return answer
end

local function is_live(tag, now)
  local expires = redis.call('HGET', base .. ':t:' .. tag, 'expires')
  return expires and tonumber(expires) > now
end
"""

CREATE_TASK: Final = LuaScript(
    "create_task",
    # ARGV: tag, tag of the owner, replica, token, limits of tasks and of tasks of the owner, how many expired tasks to
    # drop, seconds for which the task is kept, then id, owner, tool, state, expiry or '', fence, data.
    # Returns {code, created, expires, dropped ...}; the code is 1 for a stored task, 0 for an id in use, -1 if there
    # are too many tasks, -2 if there are too many of the owner.
    _COMMON
    + """
local tag, owner, replica, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local id, tool, state = ARGV[9], ARGV[11], ARGV[12]
local t, now = base .. ':t:' .. tag, clock()
-- Also those that count for the limit of the owner.
local dropped = expire(now, ARGV[7])
local function answer(code, created, expires) return {code, created, expires, unpack(dropped)} end
if is_live(tag, now) then return answer(0, '', '') end
if redis.call('EXISTS', t) == 1 then dropped[#dropped + 1] = drop(tag) end
if redis.call('ZCARD', base .. ':x') >= tonumber(ARGV[5]) then return answer(-1, '', '') end
if redis.call('SCARD', base .. ':a:' .. owner) >= tonumber(ARGV[6]) then return answer(-2, '', '') end
local number = redis.call('HINCRBY', base .. ':m', 'n', 1)
local created, expires = seconds(now), ARGV[13]
if expires == '' then expires = seconds(now + ARGV[8]) end
local holder = ''
if state == 'running' then holder = replica end
redis.call('HSET', t, 'id', id, 'owner', ARGV[10], 'owner_tag', owner, 'tool', tool, 'state', state,
  'created', created, 'expires', expires, 'fence', ARGV[14], 'generation', 1, 'holder', holder, 'token', token,
  'number', number, 'data', ARGV[15])
redis.call('ZADD', base .. ':x', expires, tag)
redis.call('ZADD', base .. ':o:' .. owner, number, tag)
redis.call('SADD', base .. ':a:' .. owner, tag)
enter(tag, tool, state, holder, number)
return answer(1, created, expires)
""",
)

LOAD_TASK: Final = LuaScript(
    "load_task",
    # ARGV: tag. Returns the fields of the record.
    _COMMON
    + """
if not is_live(ARGV[1], clock()) then return false end
return record(ARGV[1])
""",
)

LIST_TASKS: Final = LuaScript(
    "list_tasks",
    # ARGV: tag of the owner, tag of the last task or '', tasks and bytes of a page. Returns records.
    _COMMON
    + """
local key, now = base .. ':o:' .. ARGV[1], clock()
local first = '-inf'
if ARGV[2] ~= '' then
  local score = redis.call('ZSCORE', key, ARGV[2])
  if not score or not is_live(ARGV[2], now) then return {} end
  first = '(' .. score
end
local page, bytes, offset = {}, 0, 0
while #page < tonumber(ARGV[3]) do
  local tags = redis.call('ZRANGEBYSCORE', key, first, '+inf', 'LIMIT', offset, 100)
  if #tags == 0 then return page end
  offset = offset + #tags
  for _, tag in ipairs(tags) do
    if #page >= tonumber(ARGV[3]) then return page end
    if is_live(tag, now) then
      local found = record(tag)
      bytes = bytes + #found[9]
      if #page > 0 and bytes > tonumber(ARGV[4]) then return page end
      page[#page + 1] = found
    end
  end
end
return page
""",
)

SAVE_TASK: Final = LuaScript(
    "save_task",
    # ARGV: tag, generation, state, expiry or '', seconds for which the task is kept, fence, replica or '' if it need
    # not hold the task, data.
    # Returns {1, owner, tool, created, expires, fence, whether another task may be claimed} if it is saved, {0} if it
    # is not, {-1, state} if the state may not change so.
    _COMMON
    + """
local tag, state, replica = ARGV[1], ARGV[3], ARGV[7]
local t, now = base .. ':t:' .. tag, clock()
if not is_live(tag, now) then return {0} end
local found = redis.call('HMGET', t, 'generation', 'state', 'holder', 'fence', 'tool', 'created', 'number', 'owner',
  'owner_tag')
local before, holder, tool = found[2], found[3], found[5]
if found[1] ~= ARGV[2] or before == 'ended' then return {0} end
if replica ~= '' then
  if before ~= 'running' or holder ~= replica or found[4] ~= ARGV[6] then return {0} end
elseif state ~= before and not (before == 'queued' and state == 'ended') then
  return {-1, before}
end
local expires = ARGV[4]
if expires == '' then expires = seconds(found[6] + ARGV[5]) end
local kept = state == 'running' and holder or ''
redis.call('HSET', t, 'state', state, 'data', ARGV[8], 'expires', expires, 'generation', found[1] + 1, 'holder', kept)
redis.call('ZADD', base .. ':x', expires, tag)
local has_freed = 0
if state ~= before then
  leave(tag, tool, before, holder)
  enter(tag, tool, state, kept, found[7])
  if state == 'ended' then redis.call('SREM', base .. ':a:' .. found[9], tag) end
  if before == 'running' and redis.call('ZCARD', base .. ':q:' .. tool) > 0 then has_freed = 1 end
end
return {1, found[8], tool, found[6], expires, found[4], has_freed}
""",
)

CLAIM_TASK: Final = LuaScript(
    "claim_task",
    # ARGV: replica, token, then tools and their limits. Returns the fields of the record.
    _COMMON
    + """
local now = clock()

-- The queued task of a tool that was created first, and its number.
local function oldest(tool)
  local key, offset = base .. ':q:' .. tool, 0
  while true do
    local found = redis.call('ZRANGE', key, offset, offset + 31, 'WITHSCORES')
    if #found == 0 then return nil end
    for i = 1, #found, 2 do
      if is_live(found[i], now) then return found[i], tonumber(found[i + 1]) end
    end
    offset = offset + 32
  end
end

local function has_room(tool, limit)
  if limit == 0 or redis.call('SCARD', base .. ':r:' .. tool) < limit then return true end
  -- Expired tasks do not count.
  local running = 0
  for _, tag in ipairs(redis.call('SRANDMEMBER', base .. ':r:' .. tool, 1000000)) do
    if is_live(tag, now) then running = running + 1 end
  end
  return running < limit
end

local tag, number
for i = 3, #ARGV, 2 do
  if has_room(ARGV[i], tonumber(ARGV[i + 1])) then
    local each, its = oldest(ARGV[i])
    if each and (not number or its < number) then tag, number = each, its end
  end
end
if not tag then return false end
local t = base .. ':t:' .. tag
local found = redis.call('HMGET', t, 'tool', 'fence', 'generation')
leave(tag, found[1], 'queued', '')
redis.call('HSET', t, 'state', 'running', 'fence', found[2] + 1, 'generation', found[3] + 1, 'holder', ARGV[1],
  'token', ARGV[2])
enter(tag, found[1], 'running', ARGV[1], 0)
return record(tag)
""",
)

QUEUES: Final = LuaScript(
    "queues",
    # Returns tools, each with its queued and running tasks and the age of the oldest queued one.
    _COMMON
    + """
local now, answer = clock(), {}
for _, tool in ipairs(redis.call('SRANDMEMBER', base .. ':l', 1000000)) do
  local queued, running, age = 0, 0, 0
  for _, tag in ipairs(redis.call('ZRANGE', base .. ':q:' .. tool, 0, -1)) do
    if is_live(tag, now) then
      if queued == 0 then age = math.max(0, now - redis.call('HGET', base .. ':t:' .. tag, 'created')) end
      queued = queued + 1
    end
  end
  for _, tag in ipairs(redis.call('SRANDMEMBER', base .. ':r:' .. tool, 1000000)) do
    if is_live(tag, now) then running = running + 1 end
  end
  if queued + running > 0 then answer[#answer + 1] = {tool, queued, running, seconds(age)} end
end
return answer
""",
)

EXPIRE_TASKS: Final = LuaScript(
    "expire_tasks",
    # ARGV: how many. Returns {whether one was running, ids ...}.
    _COMMON + "return expire(clock(), ARGV[1])",
)

HELD_TASKS: Final = LuaScript(
    "held_tasks",
    # ARGV: replica, how many. Returns tags and fences of tasks that it holds.
    """
local answer = {}
for _, tag in ipairs(redis.call('SRANDMEMBER', KEYS[1] .. ':h:' .. ARGV[1], ARGV[2])) do
  answer[#answer + 1] = tag
  answer[#answer + 1] = redis.call('HGET', KEYS[1] .. ':t:' .. tag, 'fence') or ''
end
return answer
""",
)

RELEASE_TASKS: Final = LuaScript(
    "release_tasks",
    # ARGV: replica, then tags and fences. Queues those that the replica holds with this fence, and returns their ids.
    _COMMON
    + """
local ids = {}
for i = 2, #ARGV, 2 do
  local found = redis.call('HMGET', base .. ':t:' .. ARGV[i], 'tool', 'holder', 'generation', 'number', 'fence', 'id')
  if found[2] == ARGV[1] and found[5] == ARGV[i + 1] then
    queue(ARGV[i], found)
    ids[#ids + 1] = found[6]
  end
end
return ids
""",
)

TAKE_BACK: Final = LuaScript(
    "take_back",
    # ARGV: replica, token, tag of a task that was to be created or '' after a claim. Returns as EXPIRE_TASKS.
    _COMMON
    + """
local answer, tags = {0}, {ARGV[3]}
if ARGV[3] == '' then tags = redis.call('SRANDMEMBER', base .. ':h:' .. ARGV[1], 1000000) end
for _, tag in ipairs(tags) do
  local found = redis.call('HMGET', base .. ':t:' .. tag, 'tool', 'holder', 'generation', 'number', 'token', 'id',
    'state')
  if found[5] == ARGV[2] then
    if found[3] == '1' then
      local _, was_running = drop(tag)
      if was_running then answer[1] = 1 end
      answer[#answer + 1] = found[6]
    elseif found[7] == 'running' then
      queue(tag, found)
      answer[1] = 1
      answer[#answer + 1] = found[6]
    end
  end
end
return answer
""",
)

TASK_SCRIPTS: Final = (
    CREATE_TASK, LOAD_TASK, LIST_TASKS, SAVE_TASK, CLAIM_TASK, QUEUES, EXPIRE_TASKS, HELD_TASKS, RELEASE_TASKS,
    TAKE_BACK,
)  # fmt: skip
"""All scripts of this module."""
