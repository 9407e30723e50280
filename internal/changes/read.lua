-- Reads a bucket at one instant: its position, its marks, some records, parts of its lists.
--
-- KEYS     as in take.lua
-- ARGV[1]  the number of parts of lists; then of each its first and its last entry, as
--          ZRANGEBYLEX wants them, and the most entries to return, 0 to count them only
-- ARGV[…]  names of records
--
-- Returns the position and the number of the policy, '' for none; of each part its length,
-- how many entries follow, and these; the records' values, '' for none; the marks, each an
-- id and a text.
local answer = {redis.call('HGET', KEYS[1], 'at') or '', redis.call('HGET', KEYS[1], 'policy') or ''}
local parts = 3 * tonumber(ARGV[1])
for i = 2, parts, 3 do
  table.insert(answer, tostring(redis.call('ZLEXCOUNT', KEYS[2], ARGV[i], ARGV[i + 1])))
  local entries = {}
  if ARGV[i + 2] ~= '0' then
    entries = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[i], ARGV[i + 1], 'LIMIT', 0, ARGV[i + 2])
  end
  table.insert(answer, tostring(#entries))
  for _, entry in ipairs(entries) do
    table.insert(answer, entry)
  end
end
for i = parts + 2, #ARGV do
  table.insert(answer, redis.call('HGET', KEYS[1], ARGV[i]) or '')
end
for _, mark in ipairs(redis.call('HGETALL', KEYS[3])) do
  table.insert(answer, mark)
end
return answer
