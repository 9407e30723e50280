-- Tail of a step on limits that are leased, or were until lately: takes a lease, or the
-- cost of one call. current.lua precedes this text and describes KEYS and ARGV[1] to
-- ARGV[4], except that ARGV[3] is when the calls of ARGV[6] were taken.
--
-- ARGV[5]  calls to lease, at least the cost
-- ARGV[6]  unused calls of the lease before, which are given back; 0 for none
-- ARGV[7]  until when ARGV[8] replaces ARGV[1], microseconds since 1970; 0 for never
-- ARGV[8]  program with longer windows
--
-- Returns 'S' when a newer set is in force. Otherwise 4 bytes calls taken (the lease, the
-- cost, or 0), and the decision about them. A denial is about the cost.
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
