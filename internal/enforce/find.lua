-- Reads what check.lua compares, and takes nothing. KEYS as there; it returns the same.
local t = redis.call('TIME')
return {redis.call('GETRANGE', KEYS[2], 0, 4), redis.call('GET', KEYS[1]) or '', t[1] * 1000000 + t[2]}
