-- Head of the step on the caller's own limits. It ends the script, and takes nothing, if
-- the caller has a mark, or if what the environment knows of the caller or of the policy is
-- not the newest.
--
-- KEYS[1]  the records of the caller's bucket
-- KEYS[2]  the marks of the bucket
-- KEYS[3]  the mark of a call that will be settled, if ARGV[3] is not 0
-- then the states
-- ARGV[1]  the states, ARGV[2] when the caller was reset, ARGV[3] for how many milliseconds
--          the mark of the call is kept (step.lua of package limiter)
-- ARGV[4]  the caller's id
-- ARGV[5]  the record as the environment knows it; empty for none
-- ARGV[6]  the number of the environment's policy
-- ARGV[7]  when the environment's view of the record ends (microseconds since 1970)
--
-- Returns the reply of find.lua, or else the reply to the step.
local list, reset, first = ARGV[1], tonumber(ARGV[2]), 3
local keep, record = tonumber(ARGV[3]), false
if keep > 0 then first, record = 4, KEYS[3] end
local mark = marked(KEYS[2], ARGV[4], clock)
local stored = redis.call('HMGET', KEYS[1], 'policy', 'r:' .. ARGV[4])
if mark or (stored[2] or '') ~= ARGV[5] or clock >= tonumber(ARGV[7]) or stored[1] ~= ARGV[6]
  and (not stored[1] or tonumber(stored[1]) > tonumber(ARGV[6])) then
  return {mark or '', stored[1] or '', stored[2] or '', clock}
end
