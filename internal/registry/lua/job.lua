-- Stores a bulk job if the caller holds its lease.
--
-- KEYS[1]  the job
-- KEYS[2]  its lease: the name of the holder
-- KEYS[3]  its stop mark, different for each stop
-- ARGV[1]  the caller's name
-- ARGV[2]  the job's text
-- ARGV[3]  milliseconds until the job expires
-- ARGV[4]  '1' to release the lease
-- ARGV[5]  the stop mark after which the job was last continued, '' for none
--
-- Returns 0 if the caller does not hold the lease, 1 if the job was stored, 2 if it was
-- stored and has another stop mark than ARGV[5].
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
