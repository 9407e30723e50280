-- Replaces a key's record if its version is still the one that the edit was based on.
-- KEYS[1] the record; ARGV[1] the 4-byte version expected, ARGV[2] the new record.
-- Returns nil when there is no record, the newer record when the version differs, else 1.
local record = redis.call('GET', KEYS[1])
if not record then
  return false
end
if string.sub(record, 35, 38) ~= ARGV[1] then
  return record
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
