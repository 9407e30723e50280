-- The server's clock, microseconds since 1970. Heads can go by it.
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
