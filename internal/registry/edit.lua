-- Replaces, creates or deletes a record, and adds the entry of the audit that tells of
-- it. KEYS[1] the record, KEYS[2] and KEYS[3] the audit's chain, KEYS[4…] what is to be
-- forgotten with the edit; all in one slot ARGV[1] the bytes expected of the record, its
-- version; empty when there must be no record; ARGV[2] where they stand in it, from 1
-- ARGV[3] the new record; empty to delete it; ARGV[4…] what append takes from its third
-- argument on Returns 1 when done; 0 when the audit has a newer entry; nil when there is
-- no record; a newer record. append.lua stands before this text.
local record = redis.call('GET', KEYS[1])
if ARGV[1] == '' then
  if record then
    return record
  end
elseif not record then
  return false
elseif string.sub(record, tonumber(ARGV[2]), tonumber(ARGV[2]) + #ARGV[1] - 1) ~= ARGV[1] then
  return record
end
if not append(KEYS[2], KEYS[3], unpack(ARGV, 4)) then
  return 0
end
if #KEYS > 3 then
  redis.call('DEL', unpack(KEYS, 4))
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[3])
end
return 1
