-- Finds a valid token and stores the minute of its use. KEYS[1] hash of records by id,
-- KEYS[2] hash of the minutes of last use by id. ARGV[1] the id, ARGV[2] the HMAC (32
-- bytes), ARGV[3] now in seconds (ten digits, compared as text), ARGV[4] the minute of
-- now in seconds. Returns the record, or nil if the id is unknown, the HMAC differs, or
-- the token has expired.
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record or string.sub(record, 1, 32) ~= ARGV[2] or string.sub(record, 33, 42) <= ARGV[3] then
  return nil
end
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[4] then redis.call('HSET', KEYS[2], ARGV[1], ARGV[4]) end
return record
