-- The sliding window that Upstash documents: two counters, the previous one weighted by
-- the part of its window that still counts. KEYS: the counters of the current and of the
-- previous window. ARGV: limit, the client's clock (ms), window (ms), cost. Returns the
-- remaining calls, or -1 if denied.
local limit, now, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local current = tonumber(redis.call('GET', KEYS[1]) or 0)
local previous = tonumber(redis.call('GET', KEYS[2]) or 0)
local carried = math.floor((1 - (now % window) / window) * previous)
if carried + current >= limit then return -1 end
local count = redis.call('INCRBY', KEYS[1], cost)
if count == cost then redis.call('PEXPIRE', KEYS[1], 2 * window + 1000) end
return limit - count - carried
