-- Creates, replaces or deletes a record, and appends the entry of the audit about it.
-- append.lua (package audit) stands before this text. All keys are in one slot.
--
-- KEYS[1]   the record
-- KEYS[2]   the audit's entries
-- KEYS[3]   the audit's head
-- KEYS[4]   the audit's unshipped items
-- KEYS[5…]  keys to delete with the edit
-- ARGV[1]   expected version of the record, as its bytes; empty when there must be none
-- ARGV[2]   position of these bytes in the record, from 1
-- ARGV[3]   the new record; empty to delete it
-- ARGV[4…]  what append takes from its fourth argument on
--
-- Returns 1 when done; 0 when the audit has a newer entry; nil when there is no record;
-- the stored record when it has another version.
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
if not append(KEYS[2], KEYS[3], KEYS[4], unpack(ARGV, 4)) then
  return 0
end
if #KEYS > 4 then
  redis.call('DEL', unpack(KEYS, 5))
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[3])
end
return 1
