#!lua flags=allow-oom
-- Writes an item when the memory is full: only over one that is at least as long.
-- KEYS: the item. ARGV: the new record, its time to live in milliseconds, the condition:
-- 'absent', 'any' or a version.
local version = redis.call('GETRANGE', KEYS[1], 0, 7)
if ARGV[3] == 'absent' then
  return version == '' and 'full' or 'conflict'
end
if ARGV[3] ~= 'any' and version ~= ARGV[3] then
  return 'conflict'
end
if redis.call('STRLEN', KEYS[1]) < #ARGV[1] then
  return 'full'
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'ok'
