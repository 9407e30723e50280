-- Adds calls by route to the counts of one period.
--
-- KEYS[1]   hash: calls by the Field of a Route (routecount.go). Its field '' is the
--           number of the other fields
-- ARGV[1]   how many routes the hash takes
-- ARGV[2…]  for each route: its field; its calls, 1 to 2^53
--
-- In a full hash, calls of a new route count under their plan alone. The field of a plan
-- is the length of its name in 2 bytes, and the name.
--
-- Returns 0.
local call, key, bound = redis.call, KEYS[1], tonumber(ARGV[1])
local fieldsBefore = tonumber(call('HGET', key, '') or '0')
local fields = fieldsBefore
for at = 2, #ARGV, 2 do
  local field, calls = ARGV[at], ARGV[at + 1]
  if fields >= bound and not call('HGET', key, field) then
    field = string.sub(field, 1, 2 + 256 * string.byte(field, 1) + string.byte(field, 2))
  end
  if call('HINCRBY', key, field, calls) == tonumber(calls) then
    fields = fields + 1
  end
end
if fields > fieldsBefore then
  call('HSET', key, '', string.format('%.0f', fields))
end
if fieldsBefore == 0 then
  call('EXPIRE', key, '5400')
end
return 0
