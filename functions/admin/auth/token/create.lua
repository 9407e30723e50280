-- Stores a token and appends the change to the audit log, unless a token has its id or
-- there are ARGV[3] tokens. Runs after the text of audit.AppendFunction. KEYS[1] hash of
-- records by id, KEYS[2] to KEYS[4] the audit chain. ARGV[1] the id, ARGV[2] the record,
-- ARGV[3] the maximum number of tokens, ARGV[4…] the fourth and further arguments of
-- append. Returns 1 if it was stored, 0 if not, and -1 if another entry came first.
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return 0
end
if not append(KEYS[2], KEYS[3], KEYS[4], unpack(ARGV, 4)) then return -1 end
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
