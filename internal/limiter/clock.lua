-- The server's clock, microseconds since 1970.
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
