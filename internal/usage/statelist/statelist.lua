-- Adds registered subjects of one bucket to the lists of states. Each list is a zset of
-- ids by the end of the state, in ms since 1970.
--
-- KEYS[1]   subjects over a limit
-- KEYS[2]   banned subjects
-- KEYS[3]   subjects near a limit, whose ends are only moved later
-- ARGV[1]   now, in ms since 1970
-- ARGV[2…]  for each subject: its list, 1 to 3; the end, in ms since 1970; its id
--
-- Removes ends that have passed from the changed lists, and keeps the 2,048 latest ends
-- of each.
--
-- Returns 0.
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
  local latest = call('ZRANGE', list, '-1', '-1', 'WITHSCORES')[2]
  if latest then
    call('EXPIRE', list, string.format('%.0f', math.ceil((latest - now) / 1000) + 1))
  end
end
return 0
