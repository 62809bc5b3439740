-- Removes a member from a set.
-- KEYS: the members, their times of expiry. ARGV: the member.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 'ok'
