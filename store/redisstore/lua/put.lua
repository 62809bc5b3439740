-- Writes an item if its version is ARGV[3].
-- KEYS: the item. ARGV: the new record, its time to live in milliseconds, a version.
if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[3] then
  return 'conflict'
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'ok'
