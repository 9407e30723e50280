-- Head of the step on the caller's own limits. It ends the script, and takes nothing, if
-- what the environment knows of the caller or of the policy is not the newest.
--
-- KEYS[1]  the caller's record
-- KEYS[2]  the bucket's copy of the policy's version: 1 byte format, 4 bytes version
-- KEYS[3]  the mark of a call that will be settled, if ARGV[3] is not 0
-- then the states
-- ARGV[1]  the states, ARGV[2] when the caller was reset, ARGV[3] for how many milliseconds
--          the mark is kept (step.lua of package limiter)
-- ARGV[4]  the record as the environment knows it; empty for none
-- ARGV[5]  format and version of the environment's policy
-- ARGV[6]  when the environment's view of the record ends (microseconds since 1970)
--
-- Returns the copy, the record and the server's clock if they differ, else the reply to
-- the step.
local list, reset, first = ARGV[1], tonumber(ARGV[2]), 3
local keep, record = tonumber(ARGV[3]), false
if keep > 0 then first, record = 4, KEYS[3] end
local stored, head = call('GET', KEYS[1]) or '', call('GETRANGE', KEYS[2], 0, 4)
if stored ~= ARGV[4] or clock >= tonumber(ARGV[6]) or head ~= ARGV[5]
  and (#head < 5 or unpack('>I4', head, 2) > unpack('>I4', ARGV[5], 2)) then
  return {head, stored, clock}
end
