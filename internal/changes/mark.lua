-- Sets or removes a mark.
--
-- KEYS[1]  the hash of a bucket's marks
-- ARGV[1]  the id of its change
-- ARGV[2]  its text: the record's name, a line feed and JSON; '' to remove the mark
--
-- Returns the id.
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return {ARGV[1]}
