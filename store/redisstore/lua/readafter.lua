-- Reads the entries of a stream after a number.
-- KEYS: the group, see append.lua. ARGV: the stream, the number.
-- Returns nil if there is no such stream or entry, the number of the oldest entry if some
-- entries were purged, and else a list of the entries with their positions.
local group, stream, after = KEYS[1], ARGV[1], tonumber(ARGV[2])
local range = redis.call('HGET', group, 's' .. stream)
if not range then
  return false
end
local space = string.find(range, ' ', 1, true)
local first, last = tonumber(string.sub(range, 1, space - 1)), tonumber(string.sub(range, space + 1))
if after > last then
  return false
end
if after < first - 1 then
  return string.sub(range, 1, space - 1)
end
local entries, fields = {}, {}
for i = 1, last - after do
  fields[#fields + 1] = 'e' .. string.format('%.0f', after + i) .. ' ' .. stream
  if #fields == 1000 or i == last - after then
    for _, entry in ipairs(redis.call('HMGET', group, unpack(fields))) do
      entries[#entries + 1] = entry
    end
    fields = {}
  end
end
return entries
