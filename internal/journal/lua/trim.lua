-- Removes the oldest entries from a stream, and notes which.
--
-- KEYS[1]  the stream
-- KEYS[2]  the mark: up to where the stream was trimmed
-- KEYS[3]  the head of the chain
-- ARGV[1]  the mark expected; empty for none
-- ARGV[2]  the new mark
-- ARGV[3]  id from which on entries stay
-- ARGV[4]  how the head of a chain begins that is being restored
--
-- Returns 1 when they were removed, 0 when somebody else did or the chain is restored.
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[1]
  or redis.call('GETRANGE', KEYS[3], 0, #ARGV[4] - 1) == ARGV[4] then
  return 0
end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[3])
redis.call('SET', KEYS[2], ARGV[2])
return 1
