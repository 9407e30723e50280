-- Writes a bucket's copy of the plans, or a mirror of the policy set, unless the stored
-- one is as new. No version is ever saved with two contents.
--
-- KEYS[1]  the copy
-- ARGV[1]  the new copy; its first 5 bytes are 1 byte format, 4 bytes version
--
-- Returns 1 when it was written, else 0.
local old = redis.call('GETRANGE', KEYS[1], 0, 4)
local function version(copy)
  local a, b, c, d = string.byte(copy, 2, 5)
  return ((a * 256 + b) * 256 + c) * 256 + d
end
if #old == 5 and string.byte(old) == string.byte(ARGV[1]) and version(old) >= version(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
