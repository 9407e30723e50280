-- Runs after the head of every script: reads the clock and the state.
local call, unpack, pack = redis.call, struct.unpack, struct.pack
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local s = call('GETRANGE', key, 0, 2047)
local reply
