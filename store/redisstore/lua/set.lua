-- The functions of add.lua and list.lua.
-- KEYS: the members, their times of expiry.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Removes the members that have expired, in parts that unpack can handle.
local function remove_expired()
  local gone
  repeat
    gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1000)
    if #gone > 0 then
      redis.call('ZREM', KEYS[1], unpack(gone))
      redis.call('ZREM', KEYS[2], unpack(gone))
    end
  until #gone < 1000
end
