-- A sliding window counter as in tutorials: the script derives the keys of both counters
-- from one key, and sets the time to live with each call. KEYS: the subject. ARGV: window
-- (ms), limit, the client's clock (ms). Returns 1 (allowed) or 0, retry-after (ms) and the
-- remaining calls.
local window, limit, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local start = math.floor(now / window) * window
local this, last = KEYS[1] .. ':' .. start, KEYS[1] .. ':' .. (start - window)
local count = tonumber(redis.call('GET', this) or '0')
local before = tonumber(redis.call('GET', last) or '0')
local elapsed = now - start
local used = before * (1 - elapsed / window) + count
if used >= limit then return {0, math.ceil(window - elapsed), math.floor(limit - used)} end
redis.call('INCR', this)
redis.call('PEXPIRE', this, 2 * window)
return {1, 0, math.floor(limit - used - 1)}
