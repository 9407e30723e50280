-- Head of a step by limits of the Set: on others than the caller, or to give back. It is
-- not made when a newer Set is in force, by whose limits the state counts already: a step
-- by the old ones would forget what they do not ask for. KEYS[1] the state, KEYS[2] the
-- bucket's copy of the plans; ARGV[1] the program, ARGV[2] the cost, below 0 to give
-- back, ARGV[3] the time at which that was taken, or -1 when some of a cost above 0 may
-- be given back, ARGV[4] the version of the Set that the caller knows. Returns 'S'
-- instead of a decision when the Set is newer.
local copy = call('GETRANGE', KEYS[2], 0, 4)
if #copy == 5 and struct.unpack('>I4', copy, 2) > tonumber(ARGV[4]) then
  return 'S'
end
local key, prog, cost, refund = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
