-- Head of a step by limits of the policy set: on a shared limit, or to give back. A newer
-- set's limits already shape the state, and a step by older ones would drop counts that
-- the newer ones need. So with a newer set no step is made. All keys are in one slot.
--
-- KEYS[1]  the state
-- KEYS[2]  the bucket's copy of the plans
-- ARGV[1]  program
-- ARGV[2]  cost; below 0 to give back
-- ARGV[3]  cost below 0: time at which it was taken, microseconds since 1970; cost above
--          0: -1 when some of it may be given back, else 0
-- ARGV[4]  version of the policy set that the environment knows
--
-- Returns 'S' when a newer set is in force, else the decision.
local copy = call('GETRANGE', KEYS[2], 0, 4)
if #copy == 5 and struct.unpack('>I4', copy, 2) > tonumber(ARGV[4]) then
  return 'S'
end
local key, prog, cost, refund = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
