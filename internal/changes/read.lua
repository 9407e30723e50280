-- Reads a bucket at one instant: its position, its marks, some records, a part of a list.
--
-- KEYS     as in take.lua
-- ARGV[1]  the first entry of the list, as ZRANGEBYLEX wants it; '' to read no list
-- ARGV[2]  the last entry
-- ARGV[3]  the most entries to return
-- ARGV[4…] names of records
--
-- Returns the position and the number of the policy, '' for none; the length of the list;
-- how many entries follow, and these; the records' values, '' for none; the marks, each an
-- id and a text.
local answer = {redis.call('HGET', KEYS[1], 'at') or '', redis.call('HGET', KEYS[1], 'policy') or ''}
local length, entries = 0, {}
if ARGV[1] ~= '' then
  length = redis.call('ZLEXCOUNT', KEYS[2], ARGV[1], ARGV[2])
  entries = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
end
table.insert(answer, tostring(length))
table.insert(answer, tostring(#entries))
for _, entry in ipairs(entries) do
  table.insert(answer, entry)
end
for i = 4, #ARGV do
  table.insert(answer, redis.call('HGET', KEYS[1], ARGV[i]) or '')
end
for _, mark in ipairs(redis.call('HGETALL', KEYS[3])) do
  table.insert(answer, mark)
end
return answer
