-- Moves the head of a chain.
--
-- KEYS[1]  the head
-- ARGV[1]  the head expected; empty for none
-- ARGV[2]  the new head
--
-- Returns 1 when it was moved, 0 when another head was found.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
