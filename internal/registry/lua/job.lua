-- Stores a bulk job while its lease has not passed to another.
--
-- KEYS[1]  the job
-- KEYS[2]  its lease, which holds who has it
-- ARGV[1]  who stores it
-- ARGV[2]  the job's text
-- ARGV[3]  milliseconds that it is stored for
-- ARGV[4]  '1' to give the lease back
--
-- Returns 1 when it was stored, 0 when another has the lease or nobody.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if ARGV[4] == '1' then
  redis.call('DEL', KEYS[2])
end
return 1
