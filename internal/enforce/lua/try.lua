-- Runs a step and undoes it: the state keeps its value and its time to live.
-- limiter.StepFunction precedes this text.
--
-- KEYS[1]  the state
-- ARGV[1]  program of the limits
-- ARGV[2]  cost, 0 to 1e9 calls
--
-- Returns the decision.
local before, ttl = call('GET', KEYS[1]), call('PTTL', KEYS[1])
local reply = step(KEYS[1], ARGV[1], tonumber(ARGV[2]), 0)
if before then
  call('SET', KEYS[1], before)
  if ttl >= 0 then -- 0 if less than a millisecond is left
    call('PEXPIRE', KEYS[1], math.max(ttl, 1))
  end
else
  call('DEL', KEYS[1])
end
return reply
