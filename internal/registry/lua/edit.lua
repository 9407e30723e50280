-- Creates, replaces or deletes a record, and appends its audit entry. append.lua of
-- package audit precedes this text. All keys are in one slot.
--
-- KEYS[1]   the record
-- KEYS[2]   the stream of the audit chain
-- KEYS[3]   the head of the audit chain
-- KEYS[4]   the list of unshipped audit items
-- KEYS[5]   the time of a group's reset; none for other edits
-- ARGV[1]   bytes of the expected version; empty if there must be no record
-- ARGV[2]   position of these bytes in the record, from 1
-- ARGV[3]   the new record; empty to delete the record
-- ARGV[4]   the time of the reset, in microseconds
-- ARGV[5]   how long KEYS[5] is stored, in milliseconds
-- ARGV[6…]  the arguments of append from the fourth on
--
-- Returns 1 if the edit is made; 0 if the chain has another head; nil if there is no
-- record; the stored record if it has another version.
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
if not append(KEYS[2], KEYS[3], KEYS[4], unpack(ARGV, 6)) then
  return 0
end
if KEYS[5] then
  redis.call('SET', KEYS[5], ARGV[4], 'PX', ARGV[5])
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[3])
end
return 1
