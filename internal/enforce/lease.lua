-- Tail of a step by limits that environments lease, or lately did: takes a share of them,
-- or what one call costs. current.lua stands before this text. KEYS and ARGV[1] to
-- ARGV[4] as it says, but that the time in ARGV[3] is that of ARGV[6] ARGV[5] the share,
-- the cost at least; ARGV[6] how much of an earlier share was not used and is given back,
-- 0 for none; ARGV[7] until when, microseconds, the program in ARGV[8] holds in place of
-- that in ARGV[1]; 0 for never Returns 'S' when the Set is newer; else 4 bytes how much
-- was taken, the share, the cost or 0, and the encoded decision about that; a denial is
-- about the cost.
if now < tonumber(ARGV[7]) then
  prog = ARGV[8]
end
local share, unused = tonumber(ARGV[5]), tonumber(ARGV[6])
if unused > 0 then
  step(key, prog, -unused, refund)
end
local reply = step(key, prog, share, 0)
if share > cost and string.byte(reply) % 2 == 0 then
  share = cost
  reply = step(key, prog, share, 0)
end
if string.byte(reply) % 2 == 0 then
  share = 0
end
return pack('>I4', share) .. reply
