-- Removes the oldest entries from a stream, and records which in the mark.
--
-- KEYS[1]  the stream
-- KEYS[2]  the mark: up to where the stream is trimmed
-- KEYS[3]  the head of the chain
-- ARGV[1]  the expected mark; empty for none
-- ARGV[2]  the new mark
-- ARGV[3]  id of the first entry that stays
-- ARGV[4]  the beginning of the head of a chain that is being restored
--
-- Returns 1 if the entries were removed, 0 if there is another mark or the chain is being
-- restored.
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[1]
  or redis.call('GETRANGE', KEYS[3], 0, #ARGV[4] - 1) == ARGV[4] then
  return 0
end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[3])
redis.call('SET', KEYS[2], ARGV[2])
return 1
