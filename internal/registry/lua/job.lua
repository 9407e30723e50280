-- Stores a bulk job while its lease has not passed to another.
--
-- KEYS[1]  the job
-- KEYS[2]  its lease, which holds who has it
-- KEYS[3]  its stop mark, different for each stop
-- ARGV[1]  who stores it
-- ARGV[2]  the job's text
-- ARGV[3]  milliseconds that it is stored for
-- ARGV[4]  '1' to give the lease back
-- ARGV[5]  the stop mark after which the job was continued, '' for none
--
-- Returns 0 when another has the lease or nobody, 2 when the job was stored and has
-- another stop mark, else 1.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if ARGV[4] == '1' then
  redis.call('DEL', KEYS[2])
end
local stop = redis.call('GET', KEYS[3])
if stop and stop ~= ARGV[5] then
  return 2
end
return 1
