-- Replaces, creates or deletes a record, and adds the entry of the audit that tells of it.
-- KEYS[1] the record, KEYS[2] the audit's stream, KEYS[3…] what goes with a deleted record; all in one slot
-- ARGV[1] the 4-byte version expected; empty when there must be no record; ARGV[2] where it stands in the record, from 1
-- ARGV[3] the new record; empty to delete it; ARGV[4] to ARGV[6] hash of the audit's newest entry, the new one, its hash
-- Returns 1 when done; 0 when the audit has a newer entry; nil when there is no record; a newer record.
-- append.lua stands before this text.
local record = redis.call('GET', KEYS[1])
if ARGV[1] == '' then
  if record then
    return record
  end
elseif not record then
  return false
elseif string.sub(record, tonumber(ARGV[2]), tonumber(ARGV[2]) + 3) ~= ARGV[1] then
  return record
end
if not append(KEYS[2], ARGV[4], ARGV[5], ARGV[6]) then
  return 0
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1], unpack(KEYS, 3))
else
  redis.call('SET', KEYS[1], ARGV[3])
end
return 1
