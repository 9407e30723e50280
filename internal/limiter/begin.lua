-- Runs first in every script.
local call, unpack, pack = redis.call, struct.unpack, struct.pack
