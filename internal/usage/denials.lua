-- Adds denials of some kinds of one bucket in one hour to the denial log. denylog lays
-- out fields and values.
-- KEYS[1] the log; then for each kind the counts by hour of its caller (any key of the
-- bucket where it has none). ARGV for each kind: its field, its class, its minute of the
-- hour, how many occurrences follow, the occurrences. A class is p (no caller), r (a
-- registered caller) or u (any other). Returns 0, or a list with the calls of each kind
-- that were left out.
--
-- The log uses at most 16 KiB. The last quarter is for the first kind of callers who
-- were not denied before in the hour. The quarter before it takes the first occurrence of
-- a minute of known kinds too. Half of the log is for anything: 4 occurrences of a kind
-- and minute, and 16 kinds of a caller. Unregistered callers use only that half, with 1
-- occurrence a minute. Occurrences that are not kept count in the newest one of their
-- kind and minute.
local call, byte, sub, char, floor = redis.call, string.byte, string.sub, string.char, math.floor
local log, budget = KEYS[1], 16384
local before = tonumber(call('HGET', log, '') or '0')
local used, left, anyLeft = before, {}, false

local function number(text, at)
  return byte(text, at) * 65536 + byte(text, at + 1) * 256 + byte(text, at + 2)
end

-- opened counts a new kind in, and returns what its field takes; nil when there is no
-- room for it.
local function opened(field, class, hours, size)
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
  local first, out, changed = at + 4, 0, false
  at = first + tonumber(ARGV[at + 3])
  local value = call('HGET', log, field)
  local latest, count, last = -1, 0, 0
  if value then
    latest, count, last = byte(value, 1), byte(value, 2), byte(value, 3) * 256 + byte(value, 4)
  end
  for j = first, at - 1 do
    local one = ARGV[j]
    local size
    if not value then
      size = opened(field, class, KEYS[i], #one)
      value = size and '\0\0\0\0'
    elseif latest ~= minute then
      size = used + #one <= budget * (class == 'u' and 2 or 3) / 4 and #one
    elseif count < 4 and class ~= 'u' then
      size = used + #one <= budget / 2 and #one
    end
    if size then
      count = latest == minute and count + 1 or 1
      latest, last, used, changed = minute, #value, used + size, true
      value = value .. one
    elseif value and latest == minute then
      local calls = math.min(number(value, last + 5) + number(one, 5), 16777215)
      value = sub(value, 1, last + 4) .. char(floor(calls / 65536), floor(calls / 256) % 256, calls % 256)
        .. sub(value, last + 8)
      changed = true
    else
      out, anyLeft = out + number(one, 5), true
    end
  end
  if changed then
    call('HSET', log, field, char(latest, count, floor(last / 256), last % 256) .. sub(value, 5))
  end
  left[i - 1] = out
end
if used > before then
  call('HINCRBY', log, '', string.format('%.0f', used - before))
  if before == 0 then
    call('EXPIRE', log, '90000')
  end
end
return anyLeft and left or 0
