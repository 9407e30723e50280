-- Runs after the head of every script, before clock.lua and the state is read.
local call, unpack, pack = redis.call, struct.unpack, struct.pack
