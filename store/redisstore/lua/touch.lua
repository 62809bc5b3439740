-- Extends the life of an item and returns its record.
-- KEYS: the item. ARGV: the time to live in milliseconds.
local record = redis.call('GET', KEYS[1])
if record and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return record
