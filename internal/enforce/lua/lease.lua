-- Tail of a step on limits that are leased, or were until lately: gives back the unused
-- calls of the lease before, and takes the next lease or, if that does not fit, the cost
-- of one call. current.lua precedes this text. All keys are in one slot.
--
-- KEYS[1]  the state
-- KEYS[2]  the bucket's copy of the plans
-- ARGV[1]  program of the limits
-- ARGV[2]  cost of the call, calls
-- ARGV[3]  when the calls of ARGV[6] were taken, microseconds since 1970; 0 for none
-- ARGV[4]  version of the policy set that the environment knows
-- ARGV[5]  calls to lease, at least the cost
-- ARGV[6]  unused calls of the lease before; 0 for none
-- ARGV[7]  until when ARGV[8] replaces ARGV[1], microseconds since 1970; 0 for never
-- ARGV[8]  program with longer windows; empty for none
--
-- Returns 'S' if a newer policy set is in force. Otherwise 4 bytes calls taken (the
-- lease, the cost, or 0), then the decision about them. A denial is about the cost.
if now < tonumber(ARGV[7]) then
  prog = ARGV[8]
end
local lease, unused = tonumber(ARGV[5]), tonumber(ARGV[6])
if unused > 0 then
  step(key, prog, -unused, taken)
end
local reply = step(key, prog, lease, 0)
if lease > cost and string.byte(reply) % 2 == 0 then
  lease = cost
  reply = step(key, prog, lease, 0)
end
if string.byte(reply) % 2 == 0 then
  lease = 0
end
return pack('>I4', lease) .. reply
