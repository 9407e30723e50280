-- Reads what check.lua compares, and takes nothing. KEYS as there.
--
-- ARGV[1]  the caller's id
--
-- Returns the caller's mark, the number of the newest policy, the caller's record, each
-- empty for none, and the server's clock. Without the policy's number the bucket is lost.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stored = redis.call('HMGET', KEYS[1], 'policy', 'r:' .. ARGV[1])
return {marked(KEYS[2], ARGV[1], now) or '', stored[1] or '', stored[2] or '', now}
