-- Appends an entry to a stream and purges old entries of the stream and of its group.
-- KEYS: the group, a hash with the fields
--   sNAME      the numbers of the first and the last entry of stream NAME
--   eSEQ NAME  entry SEQ of stream NAME, after its position in the group and a space
--   oPOSITION  the number and the stream of the entry at a position in the group
--   last       the position of the newest entry
--   oldest     a position that is not after the one of the oldest entry
--   bytes      the size of the group
-- ARGV: the stream, the number of the entry, the entry, the time to live in milliseconds,
-- the maximum number of entries of the stream, the maximum number of bytes of the group,
-- the overhead of an entry.
local group, stream, seq = KEYS[1], ARGV[1], tonumber(ARGV[2])
local max_entries, max_bytes, overhead = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local function text(number)
  return string.format('%.0f', number)
end

-- Divides a string at the first space.
local function divide(s)
  local space = string.find(s, ' ', 1, true)
  return string.sub(s, 1, space - 1), string.sub(s, space + 1)
end

local state = redis.call('HMGET', group, 'last', 'oldest', 'bytes', 's' .. stream)
local position, oldest, bytes = (state[1] or 0) + 1, tonumber(state[2] or 1), tonumber(state[3] or 0)
local first = seq
if state[4] then
  local from, to = divide(state[4])
  if seq ~= to + 1 then
    return to
  end
  first = tonumber(from)
end

redis.call('HSET', group, 'e' .. ARGV[2] .. ' ' .. stream, text(position) .. ' ' .. ARGV[3],
  'o' .. text(position), ARGV[2] .. ' ' .. stream, 'last', text(position))
bytes = bytes + #ARGV[3] + overhead

-- Deletes the oldest entry of a stream but not the field of the stream.
local function purge(name, number)
  local field = 'e' .. text(number) .. ' ' .. name
  local at, entry = divide(redis.call('HGET', group, field))
  redis.call('HDEL', group, field, 'o' .. at)
  bytes = bytes - #entry - overhead
end

while seq - first >= max_entries do
  purge(stream, first)
  first = first + 1
end
redis.call('HSET', group, 's' .. stream, text(first) .. ' ' .. ARGV[2])
while bytes > max_bytes do
  local entry = redis.call('HGET', group, 'o' .. text(oldest))
  if entry then
    local number, name = divide(entry)
    local _, to = divide(redis.call('HGET', group, 's' .. name))
    purge(name, tonumber(number))
    if number == to then
      redis.call('HDEL', group, 's' .. name)
    else
      redis.call('HSET', group, 's' .. name, text(number + 1) .. ' ' .. to)
    end
  end
  oldest = oldest + 1
end
redis.call('HSET', group, 'bytes', text(bytes), 'oldest', text(oldest))
if redis.call('PTTL', group) < tonumber(ARGV[4]) then
  redis.call('PEXPIRE', group, ARGV[4])
end
return ''
