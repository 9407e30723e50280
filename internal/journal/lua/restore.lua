-- Runs commands if a chain has the expected head.
--
-- KEYS[1]  the head
-- KEYS[2…] the key of each command
-- ARGV[1]  the expected head; empty for none
-- ARGV[2…] for each command: its name, the number of arguments after its key, and these
--          arguments
--
-- Returns 1 if they ran, 0 if the chain has another head. Then nothing is done.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
local at = 2
for i = 2, #KEYS do
  local last = at + 1 + tonumber(ARGV[at + 1])
  redis.call(ARGV[at], KEYS[i], unpack(ARGV, at + 2, last))
  at = last + 1
end
return 1
