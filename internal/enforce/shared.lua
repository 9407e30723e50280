-- Head of a step on shared limits, and of a look. ARGV[1] are the states, ARGV[2] is when
-- the subject was reset. If it is 1, KEYS[1] has that, and the states follow.
local list, reset, first, keep, record = ARGV[1], tonumber(ARGV[2]), 1, 0, false
if reset == 1 then first, reset = 2, tonumber(call('GET', KEYS[1]) or 0) end
