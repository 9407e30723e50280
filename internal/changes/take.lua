-- Brings a bucket from one position to a later one, in one step.
--
-- KEYS[1]  the bucket: a hash of its records, of its position (at) and of the number of
--          the last change of the policy (policy)
-- KEYS[2]  the sorted set of its lists' entries, all with score 0
-- KEYS[3]  the hash of its marks by the id of their change
-- ARGV[1]  the position that the bucket must have
-- ARGV[2]  the position that it gets
-- ARGV[3]  the number of the last change of the policy in between; '' for none
-- ARGV[4…] five lists, each after its length: ids of the changes; records to set, each a
--          name and a value; names to delete; entries to remove from lists; entries to add
--
-- Returns the bucket's position afterwards, '' if it has none. The bucket took the changes,
-- now or before, if that is ARGV[2].
local at = redis.call('HGET', KEYS[1], 'at') or ''
if at ~= ARGV[1] or at == '' then
  return {at}
end
local i = 4
local function each(width, act)
  local last = i + width * tonumber(ARGV[i])
  for first = i + 1, last, width do
    act(ARGV[first], ARGV[first + 1])
  end
  i = last + 1
end
each(1, function(id) redis.call('HDEL', KEYS[3], id) end)
each(2, function(name, value) redis.call('HSET', KEYS[1], name, value) end)
each(1, function(name) redis.call('HDEL', KEYS[1], name) end)
each(1, function(entry) redis.call('ZREM', KEYS[2], entry) end)
each(1, function(entry) redis.call('ZADD', KEYS[2], 0, entry) end)
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'policy', ARGV[3])
end
redis.call('HSET', KEYS[1], 'at', ARGV[2])
return {ARGV[2]}
