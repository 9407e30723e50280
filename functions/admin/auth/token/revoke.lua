-- Removes a token and appends the change to the audit log. Runs after the text of
-- audit.AppendFunction. KEYS[1] hash of records by id, KEYS[2] hash of the minutes of
-- last use by id, KEYS[3] to KEYS[5] the audit chain. ARGV[1] the id, ARGV[2…] the fourth
-- and further arguments of append. Returns 1 if it was removed, 0 if it did not exist,
-- and -1 if another entry came first.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if not append(KEYS[3], KEYS[4], KEYS[5], unpack(ARGV, 2)) then return -1 end
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
