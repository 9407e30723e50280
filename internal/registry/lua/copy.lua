-- Writes a bucket's copy, or a mirror of the policy set, if the stored one
-- has an older version. No version is ever saved with two contents.
--
-- KEYS[1]  the copy
-- ARGV[1]  the new copy; its first 5 bytes are 1 byte format, 4 bytes version
-- ARGV[2]  '1' to write it if there is none
--
-- Returns 1 if the copy was written, 0 if the stored one is not older, -1 if there is none
-- and none was written.
local old = redis.call('GETRANGE', KEYS[1], 0, 4)
local function version(copy)
  local a, b, c, d = string.byte(copy, 2, 5)
  return ((a * 256 + b) * 256 + c) * 256 + d
end
if #old == 5 and string.byte(old) == string.byte(ARGV[1]) and version(old) >= version(ARGV[1]) then
  return 0
end
if #old == 0 and ARGV[2] ~= '1' then
  return -1
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
