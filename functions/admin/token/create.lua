-- Stores a token unless there are too many, or one of its id.
-- KEYS[1] hash of records by id. ARGV[1] the id, ARGV[2] the record, ARGV[3] the most tokens. Returns 1 if it was stored, else 0.
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
return redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
