-- Reads or adds changes of the audit. The order of calls does not matter.
--
-- KEYS[1]  the sorted set of changes by number
-- ARGV[1]  how many to keep; '' to read
-- ARGV[2…] to read, the first and the last number; to add, numbers and texts
--
-- Returns the texts that it read.
if ARGV[1] == '' then
  return redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[3])
end
for i = 2, #ARGV, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[i], ARGV[i])
  redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[1]) - 1)
return {}
