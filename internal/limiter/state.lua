-- The state, or as much of it as is read at once. `reply` is nil until one of the ways to
-- make the step has made it.
local s = call('GETRANGE', key, '0', '2047')
local reply
