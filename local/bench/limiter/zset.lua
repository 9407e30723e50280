-- A sliding window log as in tutorials: a sorted set with a member for each call. KEYS:
-- the subject. ARGV: limit, window (s), the client's clock (ms). Returns 1 (allowed) or 0,
-- the remaining calls and retry-after (s).
local key, limit, window, now = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', key, 0, now - 1000 * window)
local count = redis.call('ZCARD', key)
if count < limit then
  redis.call('ZADD', key, now, now .. ':' .. math.random())
  redis.call('EXPIRE', key, window)
  return {1, limit - count - 1, 0}
end
local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
local wait = 0
if oldest[2] then wait = math.ceil((tonumber(oldest[2]) + 1000 * window - now) / 1000) end
return {0, 0, wait}
