-- Head of a step on a shared limit, or of one that gives back. If a newer policy set is in
-- force, its limits already shape the state. A step by older limits would drop counts that
-- the newer ones need, so none is made. All keys are in one slot.
--
-- KEYS[1]  the state
-- KEYS[2]  the bucket's copy of the plans
-- ARGV[1]  program
-- ARGV[2]  cost; below 0 to give back
-- ARGV[3]  for a cost below 0: when it was taken, microseconds since 1970; else -1 when
--          some of it may be given back, 0 when not
-- ARGV[4]  version of the policy set that the environment knows
--
-- Returns 'S' when a newer set is in force, else the decision.
local copy = call('GETRANGE', KEYS[2], 0, 4)
if #copy == 5 and struct.unpack('>I4', copy, 2) > tonumber(ARGV[4]) then
  return 'S'
end
local key, prog, cost, refund = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
