-- Lists registered subjects of one bucket that are in a state until a time.
-- KEYS[1] those over a limit, KEYS[2] those that are banned, KEYS[3] those that nearly
-- used up a limit: sorted sets of ids by that time, in milliseconds since 1970. ARGV[1]
-- now; then for each subject its list (1 to 3), the time, the id. In KEYS[3] a time only
-- grows. Whatever is past leaves, and a list keeps the 2,048 that end last. Returns 0.
local call, now, changed = redis.call, ARGV[1], {}
for at = 2, #ARGV, 3 do
  local list = KEYS[tonumber(ARGV[at])]
  if ARGV[at] == '3' then
    call('ZADD', list, 'GT', ARGV[at + 1], ARGV[at + 2])
  else
    call('ZADD', list, ARGV[at + 1], ARGV[at + 2])
  end
  changed[list] = true
end
for list in pairs(changed) do
  call('ZREMRANGEBYSCORE', list, '-inf', now)
  call('ZREMRANGEBYRANK', list, '0', '-2049')
  local last = call('ZRANGE', list, '-1', '-1', 'WITHSCORES')[2]
  if last then
    call('EXPIRE', list, string.format('%.0f', math.ceil((last - now) / 1000) + 1))
  end
end
return 0
