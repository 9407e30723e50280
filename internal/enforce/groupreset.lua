-- Returns when a group was reset, 0 for never. Its record is the number of its last change,
-- the microseconds since 1970, and its name.
local function groupReset(records, id)
  return tonumber(string.match(redis.call('HGET', records, 'r:' .. id) or '', '^%d+ (%d+)') or 0)
end
