-- Settles a reservation on its caller: notes that it is settled, and gives back or takes
-- the difference on every state that took. KEYS[1] the mark, KEYS[2] the caller's record,
-- KEYS[3] the bucket's copy of the plans, KEYS[4…] the states, all in one slot ARGV[1]
-- when the reservation expires, microseconds; ARGV[2] the difference: below 0 to give
-- back; ARGV[3] when the cost was taken, microseconds; what the programs go by: ARGV[4]
-- the record's 4-byte version, empty without a record, ARGV[5] the version of the Set,
-- ARGV[6] when the caller's override ends, microseconds, empty when it does not, ARGV[7]
-- '1' when it holds; ARGV[8…] the program of each state Returns 'X' when the reservation
-- has expired; 'A' when it was settled already; 'R' and 7 bytes time when the programs go
-- by what no longer holds; else 'D', 7 bytes time, and 4 bytes for each state: how much
-- was taken, or of what was to be given back how much the state may still hold.
-- charge.lua stands before this text.
local expires, difference, at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if now >= expires then
  return 'X'
end
if call('GETRANGE', KEYS[2], 87, 90) ~= ARGV[4] or newer(KEYS[3], ARGV[5])
  or (ARGV[6] ~= '' and (now < tonumber(ARGV[6])) ~= (ARGV[7] == '1')) then
  return 'R' .. pack('>I7', now)
end
if not call('SET', KEYS[1], '1', 'NX', 'PX', string.format('%.0f', math.ceil((expires - now) / 1000))) then
  return 'A'
end
local reply = 'D' .. pack('>I7', now)
for i = 4, #KEYS do
  reply = reply .. pack('>I4', settle(KEYS[i], ARGV[i + 4], difference, at))
end
return reply
