-- Lists members of a set. Follows set.lua.
-- ARGV: the string after which to start, the maximum number of results.
remove_expired()
return redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1] == '' and '-' or '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])
