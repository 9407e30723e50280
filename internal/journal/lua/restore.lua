-- Runs commands while the head of a chain is the one expected.
--
-- KEYS[1]  the head
-- KEYS[2…] the key of each command
-- ARGV[1]  the head expected; empty for none
-- ARGV[2…] of each command: its name, how many arguments follow its key, and these
--
-- Returns 1 when they ran, 0 when another head was found: then nothing was done.
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
