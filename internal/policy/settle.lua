-- Settles a reservation on its caller: notes that it is settled, and gives back or takes the difference on every state that took.
-- KEYS[1] the mark, KEYS[2…] the states, all in one slot
-- ARGV[1] when the reservation expires, microseconds; ARGV[2] the difference: below 0 to give back; ARGV[3] when the cost was taken, microseconds;
-- ARGV[4…] the program of each state
-- Returns 'X' when the reservation has expired; 'A' when it was settled already; else 'D', 7 bytes time, and 4 bytes for each state: how much was
-- taken, 0 when something was given back. charge.lua stands before this text.
local expires, difference, at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if now >= expires then
  return 'X'
end
if not call('SET', KEYS[1], '1', 'NX', 'PX', string.format('%.0f', math.ceil((expires - now) / 1000))) then
  return 'A'
end
local reply = 'D' .. pack('>I7', now)
for i = 2, #KEYS do
  reply = reply .. pack('>I4', settle(KEYS[i], ARGV[i + 2], difference, at))
end
return reply
