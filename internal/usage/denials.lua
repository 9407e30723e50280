-- Adds denials of one bucket in one hour to the denial log. Package denylog documents the
-- layout of its fields and values.
--
-- KEYS[1]   hash: the log
-- KEYS[2…]  for each kind of denials: hash of its caller's counts by hour, or any key of
--           the bucket if it has no caller
-- ARGV      for each kind: its field; its class; its minute of the hour, 0 to 59; the
--           number of its occurrences, 1 to 4; the occurrences
--
-- A class is p (no caller), r (a registered caller) or u (any other caller).
--
-- Returns 0 if every denial was logged. Otherwise returns a list with the calls of each
-- kind that were not.
--
-- The log uses at most 16 KiB. Three bounds keep room for what matters most:
--
--   16 KiB  the first kind of a caller in the hour, except of class u
--   12 KiB  the first occurrence in a minute, of a kind in the log, except of class u
--    8 KiB  anything else: up to 16 kinds of a caller, and up to 4 occurrences of a kind
--           and minute, 1 of class u
--
-- An occurrence beyond a bound counts in the newest one of its kind and minute. If there
-- is none, it is not logged. Nothing is logged of a class u caller without counts by hour.
local call, byte, sub, char, floor = redis.call, string.byte, string.sub, string.char, math.floor
local log, budget = KEYS[1], 16384
local usedBefore = tonumber(call('HGET', log, '') or '0')
local used, unlogged, anyUnlogged = usedBefore, {}, false

local function number(text, at)
  return byte(text, at) * 65536 + byte(text, at + 1) * 256 + byte(text, at + 2)
end

-- addKind counts a new kind of a caller. It returns the bytes that the kind and its first
-- occurrence use, or nil if there is no room.
local function addKind(field, class, hours, size)
  local counter = '\255' .. sub(field, 2, 1 + byte(field, 1))
  local kinds = tonumber(call('HGET', log, counter) or '0')
  size = size + 132 + #field + (kinds == 0 and 64 + #counter or 0)
  local bound = (kinds > 0 or class == 'u') and budget / 2 or budget
  if kinds >= 16 or used + size > bound
    or (class == 'u' and call('EXISTS', hours) == 0) then
    return nil
  end
  call('HINCRBY', log, counter, '1')
  return size
end

local at = 1
for i = 2, #KEYS do
  local field, class, minute = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local first, unloggedCalls, changed = at + 4, 0, false
  at = first + tonumber(ARGV[at + 3])
  local value = call('HGET', log, field)
  local newestMinute, count, offset = -1, 0, 0
  if value then
    newestMinute, count, offset = byte(value, 1), byte(value, 2), byte(value, 3) * 256 + byte(value, 4)
  end
  for j = first, at - 1 do
    local occurrence = ARGV[j]
    local size
    if not value then
      size = addKind(field, class, KEYS[i], #occurrence)
      value = size and '\0\0\0\0'
    elseif newestMinute ~= minute then
      size = used + #occurrence <= budget * (class == 'u' and 2 or 3) / 4 and #occurrence
    elseif count < 4 and class ~= 'u' then
      size = used + #occurrence <= budget / 2 and #occurrence
    end
    if size then
      count = newestMinute == minute and count + 1 or 1
      newestMinute, offset, used, changed = minute, #value, used + size, true
      value = value .. occurrence
    elseif value and newestMinute == minute then
      local calls = math.min(number(value, offset + 5) + number(occurrence, 5), 16777215)
      value = sub(value, 1, offset + 4) .. char(floor(calls / 65536), floor(calls / 256) % 256, calls % 256)
        .. sub(value, offset + 8)
      changed = true
    else
      unloggedCalls, anyUnlogged = unloggedCalls + number(occurrence, 5), true
    end
  end
  if changed then
    call('HSET', log, field, char(newestMinute, count, floor(offset / 256), offset % 256) .. sub(value, 5))
  end
  unlogged[i - 1] = unloggedCalls
end
if used > usedBefore then
  call('HINCRBY', log, '', string.format('%.0f', used - usedBefore))
  if usedBefore == 0 then
    call('EXPIRE', log, '90000')
  end
end
return anyUnlogged and unlogged or 0
