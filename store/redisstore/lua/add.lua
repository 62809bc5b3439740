-- Adds a member to a set or extends its life. Follows set.lua.
-- ARGV: the member, its time to live in milliseconds, the maximum number of members,
-- 'full' if the memory is full, so that only members of the set are accepted.
local member, expires = ARGV[1], now + ARGV[2]
remove_expired()
local old = redis.call('ZSCORE', KEYS[2], member)
if not old then
  if ARGV[4] == 'full' or redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
    return 'full'
  end
  redis.call('ZADD', KEYS[1], 0, member)
end
if not old or tonumber(old) < expires then
  redis.call('ZADD', KEYS[2], expires, member)
end
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 'ok'
