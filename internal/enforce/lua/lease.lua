-- Tail of a step by limits that are leased, or were until lately: takes a lease of them,
-- or the cost of one call. current.lua stands before this text and describes KEYS and
-- ARGV 1 to 4, but the time in ARGV[3] belongs to ARGV[6].
--
-- ARGV[5]  calls to lease, the cost at least
-- ARGV[6]  unused calls of the lease before, which are given back; 0 for none
-- ARGV[7]  until when the program in ARGV[8] holds in place of that in ARGV[1],
--          microseconds since 1970; 0 for never
-- ARGV[8]  program of longer windows
--
-- Returns 'S' when a newer set is in force; else 4 bytes calls taken (the lease, the
-- cost, or 0) and the decision about them. A denial is about the cost.
if now < tonumber(ARGV[7]) then
  prog = ARGV[8]
end
local lease, unused = tonumber(ARGV[5]), tonumber(ARGV[6])
if unused > 0 then
  step(key, prog, -unused, refund)
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
