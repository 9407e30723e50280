-- Adds calls by route to what is counted of one period.
-- KEYS[1] a hash of calls by route; its field '' is how many fields it has beside that.
-- ARGV[1] how many routes the hash takes; then for each route its field (routecount.go) and
-- the calls (1 to 2^53). Beyond the bound a call counts under its plan alone, whose field
-- is the plan's length in 2 bytes and its name. Returns 0.
local call, key, bound = redis.call, KEYS[1], tonumber(ARGV[1])
local had = tonumber(call('HGET', key, '') or '0')
local has = had
for at = 2, #ARGV, 2 do
  local field, calls = ARGV[at], ARGV[at + 1]
  if has >= bound and not call('HGET', key, field) then
    field = string.sub(field, 1, 2 + 256 * string.byte(field, 1) + string.byte(field, 2))
  end
  if call('HINCRBY', key, field, calls) == tonumber(calls) then
    has = has + 1
  end
end
if has > had then
  call('HSET', key, '', string.format('%.0f', has))
end
if had == 0 then
  call('EXPIRE', key, '5400')
end
return 0
