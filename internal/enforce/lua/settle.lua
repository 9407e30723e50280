-- Settles a reservation on the caller's own states: marks it as settled, and gives back
-- or takes the difference on every state that took the cost. charge.lua precedes this
-- text. All keys are in one slot. Times are microseconds since 1970.
--
-- KEYS[1]   the mark of the settled reservation
-- KEYS[2]   the caller's record
-- KEYS[3]   the bucket's copy of the plans
-- KEYS[4…]  the states
-- ARGV[1]   when the reservation expires
-- ARGV[2]   the difference, calls; below 0 to give back
-- ARGV[3]   when the cost was taken
-- ARGV[4]   version of the record that the programs are from, 4 bytes; empty without one
-- ARGV[5]   version of the policy set that the programs are from
-- ARGV[6]   when the caller's override ends; empty if it has no end or there is none
-- ARGV[7]   '1' if an override was active when the programs were compiled
-- ARGV[8]   program of the limits that the override replaces, which the first state counts;
--           empty without one
-- ARGV[9…]  program of each state
--
-- Returns
--   'X'                  the reservation has expired
--   'A'                  it is settled already
--   'R'  7 bytes now     the programs are out of date; nothing was changed
--   'D'  7 bytes now, then the result of the function settle for each state
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
  local counted = i == 4 and ARGV[8] or ''
  reply = reply .. settle(KEYS[i], ARGV[i + 5], difference, at, counted)
end
return reply
