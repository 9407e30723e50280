-- Head of a step on a shared limit, or of a step that gives back. It ends the script if a
-- newer policy set is in force, because its limits must decide. Otherwise it sets the locals
-- that a step needs (open.lua of package limiter). All keys are in one slot.
--
-- KEYS[1]  the state
-- KEYS[2]  the bucket's copy of the plans
-- ARGV[1]  program of the limits
-- ARGV[2]  cost, calls; below 0 to give back
-- ARGV[3]  for a cost below 0: when it was taken, microseconds since 1970; otherwise 0
-- ARGV[4]  version of the policy set that the environment knows
-- ARGV[5]  of stepScript: program of limits that only count, because an override replaces
--          them; empty without one
--
-- Returns 'S' if a newer policy set is in force, otherwise the decision.
local copy = call('GETRANGE', KEYS[2], 0, 4)
if #copy == 5 and struct.unpack('>I4', copy, 2) > tonumber(ARGV[4]) then
  return 'S'
end
local key, prog, counted, cost, taken = KEYS[1], ARGV[1], '', tonumber(ARGV[2]), tonumber(ARGV[3])
local calls = 1 -- whole calls are given back
