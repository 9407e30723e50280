-- Head of a step on shared limits, and of a look. ARGV[1] are the states, ARGV[2] is when
-- the subject was reset. If it is the id of a group, KEYS[1] are the records of the group's
-- bucket, and the states follow.
local list, reset, first, keep, record = ARGV[1], tonumber(ARGV[2]), 1, 0, false
if not reset then first, reset = 2, groupReset(KEYS[1], ARGV[2]) end
