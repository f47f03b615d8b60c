"""What Redis does as one step, so that two gateways never both become the owner of a key.

A place is where a key's session is kept: a hash of the gateway that owns it, that gateway's token,
the record as JSON, and whether a worker has served it. Beside it stands the set of names that are
bound to it.
"""

from __future__ import annotations

from pilothouse.hub.sessions.redis_wire import Script

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

REGISTER = Script("""
-- KEYS: the gateway, the mark of this data. ARGV: its text, lease in ms, a new mark.
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[3], 'NX')
return redis.call('GET', KEYS[2])
""")
"""Begin a lease. Returns the mark, which is another one when Redis has lost its data."""

TAKE = Script(f"""
-- KEYS: the place, the gateway, all places, the last token.
-- ARGV: gateway id, what precedes the ids of gateways, lease and keeping in ms, most places,
--       a record to begin with or nothing, the least token before it.
if redis.call('PEXPIRE', KEYS[2], ARGV[3]) == 0 then return {{'lapsed'}} end
{_NOW}
local gate, token, record, used =
  unpack(redis.call('HMGET', KEYS[1], 'gate', 'token', 'record', 'used'))
local before, kind = tonumber(token or ARGV[7]), 'mine'
if not gate then
  if ARGV[6] == '' then return {{'unknown'}} end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4])
  if before == 0 and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[5]) then return {{'full'}} end
  kind, record = 'new', ARGV[6]
  redis.call('HSET', KEYS[1], 'record', record)
elseif gate ~= ARGV[1] then
  local theirs = redis.call('GET', ARGV[2] .. gate)
  if theirs then return {{'theirs', gate, theirs}} end
end
local granted = before
if gate ~= ARGV[1] then
  granted = redis.call('INCR', KEYS[4])
  if granted <= before then
    granted = before + 1
    redis.call('SET', KEYS[4], granted)
  end
  redis.call('HSET', KEYS[1], 'gate', ARGV[1], 'token', granted)
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[3], now, KEYS[1])
return {{kind, granted, before, record, used or ''}}
""")
"""Become or stay the owner of a key, unless another gateway with a lease is. Renews the lease."""

SAVE = Script("""
-- KEYS: the place. ARGV: token, record, used.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'record', ARGV[2], 'used', ARGV[3])
return 1
""")
"""Keep a record, if the token is still the last one."""

TOUCH = Script(f"""
-- KEYS: all places, then those that were seen. ARGV: keeping in ms.
{_NOW}
for i = 2, #KEYS do
  if redis.call('PEXPIRE', KEYS[i], ARGV[1]) == 1 then
    redis.call('ZADD', KEYS[1], now, KEYS[i])
    redis.call('PEXPIRE', KEYS[i] .. ':names', ARGV[1])
  end
end
return #KEYS - 1
""")

END = Script("""
-- KEYS: the place, all places, all names, the names of the place.
-- ARGV: token, key, what precedes a name.
local token = redis.call('HGET', KEYS[1], 'token')
if token and token ~= ARGV[1] then return 0 end
for _, name in ipairs(redis.call('SMEMBERS', KEYS[4])) do
  if redis.call('GET', ARGV[3] .. name) == ARGV[2] then
    redis.call('DEL', ARGV[3] .. name)
    redis.call('ZREM', KEYS[3], name)
  end
end
redis.call('DEL', KEYS[1], KEYS[4])
redis.call('ZREM', KEYS[2], KEYS[1])
return 1
""")
"""Forget a session with its names, if the token is still the last one."""

BIND = Script("""
-- KEYS: the name, all names, the names of the place.
-- ARGV: key, the name's digest, what precedes a name, most names, keeping in ms.
local time = redis.call('TIME')
redis.call('SET', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], time[1] * 1000000 + time[2], ARGV[2])
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
while redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[4]) do
  redis.call('DEL', ARGV[3] .. redis.call('ZPOPMIN', KEYS[2])[1])
end
return 1
""")
