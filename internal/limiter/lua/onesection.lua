-- A shortcut for the general step, for one log, token bucket or fixed window. The log may
-- have any number of limits. The shortcut saves this part of the time of a whole check:
--
--   log with two limits   11 %
--   log with one limit     5 %
--   fixed window           7 %
--   token bucket           4 %
--
-- readstate.lua describes the input and output. The shortcut leaves reply nil and writes
-- nothing for:
--   - other programs;
--   - a denial by one of several limits;
--   - refunds, and reservations on a token bucket;
--   - a state with another signature, or a damaged one;
--   - a clock that stepped back;
--   - products of 2^53 and more, except a bucket's window times its limit.
--
-- It has no functions and no tables, which would each add a tenth to the step's time.
--
-- Offsets: a program's limits start at byte 17, a state's section at byte 15, and the
-- slots of a log at byte 45.

-- The first 27 bytes of a program: the number of limits, the length of a section's
-- numbers, version and number of sections; the section; the first limit.
local code, section, width, span, n, _, window = unpack('>I4I5I1I6I4I1I6', prog)
local limits, shape = math.floor(code / 16777216), 0
if code % 65536 == 0x0201 then shape = math.floor(section / 4294967296) end
local take = cost
if cost == 0 then take = 1 end
local group = section % 4294967296
if cost < 0 or take > n or (s ~= '' and string.sub(s, 1, 14) ~= string.sub(prog, 3, 16)) then
  shape = 0
end

if shape == 1 then
  -- One log. The age of a slot is computed modulo the slot's range. The range is more
  -- than three windows, and no slot is older.
  local format, zeros, modulus = '>I4', '\0\0\0\0', 2147483648
  if width == 5 then
    format, zeros, modulus = '>I5', '\0\0\0\0\0', 549755813888
  elseif width == 6 then
    format, zeros, modulus = '>I6', '\0\0\0\0\0\0', 140737488355328
  end
  local rewritten, offset, capacity, used, fill = now, 0, 0, 0, 1
  local big = #s == 2048
  local ok = group == 1 or limits == 1
  if s ~= '' then
    if #s < 44 then
      ok = false
    else
      rewritten, offset, capacity, _, used, fill = unpack('>I7I7I4I4I4I4', s, 15)
      if group == 1 then fill = 1 end
      if not big then
        local free = string.find(s, zeros, 45, true)
        used = free and math.floor((free - 46 + width) / width) or capacity
        ok = ok and #s == 44 + capacity * width
      end
      ok = ok and used <= capacity and offset < 140737488355328 and fill <= group
        -- not if the clock stepped back so far that the ages of slots wrap around
        and now + offset - rewritten > -span
    end
  end
  local at = now + offset
  local age = span -- age of the newest slot
  if ok and used > 0 then
    local p = 44 + (used - 1) * width
    local bytes = s
    if big then
      bytes = call('GETRANGE', key, p, p + width - 1)
      p = 0
      ok = #bytes == width
    end
    if ok then age = (at - unpack(format, bytes, p + 1)) % modulus end
    ok = ok and age <= 2 * span + 10000
  end
  local first_live = used -- the first slot in the section's window
  local tail = ''
  local i = 0
  while ok and i < limits do
    if i > 0 then
      n, _, window = unpack('>I4I1I6', prog, 17 + 14 * i)
      if take > n then
        ok = false
        break
      end
    end
    i = i + 1
    local deciding, lo = used - n + take - 1, used - n
    if group > 1 then
      deciding, lo = used - 1, 0
      local spare = n - take - fill
      if spare >= 0 then deciding = used - math.floor(spare / group) - 2 end
    end
    local oldest = span
    if deciding >= 0 then
      local p = 44 + deciding * width
      local bytes = s
      if big then
        bytes = call('GETRANGE', key, p, p + width - 1)
        p = 0
        if #bytes ~= width then
          ok = false
          break
        end
      end
      oldest = (at - unpack(format, bytes, p + 1)) % modulus
    end
    local denied = deciding >= 0 and oldest < window
    if denied and (limits > 1 or age > oldest) then
      ok = false
      break
    end
    if lo < 0 then lo = 0 end
    local first, live = used, window -- the oldest slot in the window, and its age
    if age < window then
      live = age
      -- The newest slot is in the window. Find the oldest one in it by binary search,
      -- beginning with the oldest candidate.
      local hi = used - 1
      local probe = lo
      while lo < hi do
        local p = 44 + probe * width
        local bytes = s
        if big then
          bytes = call('GETRANGE', key, p, p + width - 1)
          p = 0
          if #bytes ~= width then break end
        end
        local old = (at - unpack(format, bytes, p + 1)) % modulus
        if old < window then hi, live = probe, old else lo = probe + 1 end
        probe = math.floor((lo + hi) / 2)
      end
      first = hi
    end
    if window == span then first_live = first end
    local left, reset = n, window
    if first < used then left = n - fill - (used - first - 1) * group end
    local next = window - live
    if cost == 0 then
      reset = first < used and window - age or 0
    elseif first == used or (group > 1 and first == used - 1 and fill < group) then
      next = window -- the call's own slot is the oldest
    end
    if denied then
      next = window - live
      if left < 0 then
        left, next = 0, window - oldest
        if take > 1 then
          ok = false -- several slots must leave the window first
          break
        end
      end
      reply = pack('>I1I7I4I7I7I8', 0, now, left, window - age, window - oldest, next)
      ok = false
    elseif i == 1 then
      tail = pack('>I1I7I4I7I7I8', 1, now, left - cost, reset, 0, next)
    else
      tail = tail .. pack('>I4I7I7I8', left - cost, reset, 0, next)
    end
  end
  if ok then reply = tail end
  if ok and cost > 0 then
    -- Admitted: fill up the newest slot, then add slots.
    local from, more = used, cost
    if group > 1 then
      if first_live < used and fill < group then
        from, more = used - 1, cost - (group - fill)
      end
      if more > 0 then
        local slots = math.ceil(more / group)
        fill = more - (slots - 1) * group
        more = slots
      else
        fill, more = fill + cost, 0
      end
    end
    local slots = pack(format, at % modulus + modulus)
    if used + more - from > 1 then slots = string.rep(slots, used + more - from) end
    local since = at - rewritten
    if used + more > capacity or used == 0 or since >= span or since <= -span then
      local most = math.ceil(n / group)
      for k = 0, limits - 2 do
        n = unpack('>I4', prog, 17 + 14 * k)
        if n > most then most = n end
      end
      local live, reach = '', 0
      if first_live < from then
        if big then
          live = call('GETRANGE', key, 44 + first_live * width, 43 + from * width)
        else
          live = string.sub(s, 45 + first_live * width, 44 + from * width)
        end
        reach = (at - unpack(format, live)) % modulus
        if width > 4 then reach = math.ceil(reach / 65536) end
      end
      local count = used + more - first_live
      local room = count > 1 and math.floor(math.min(count * 1.5 + 8, most * 1.1 + 4)) or 3
      if room < count then room = count end
      call('SET', key, string.sub(prog, 3, 16) .. pack('>I7I7I4I4I4I4', at, offset, room, reach, count,
        fill) .. live .. slots
        .. string.rep(zeros, room - count), 'PX', math.ceil(span / 500) + 1)
    else
      if big or group > 1 then call('SETRANGE', key, 36, pack('>I4I4', used + more, fill)) end
      -- The slot after the written ones must be free, whatever the state has there.
      if used + more < capacity then slots = slots .. zeros end
      call('SETRANGE', key, 44 + from * width, slots)
    end
  end

elseif shape == 4 and limits == 1 and refund ~= -1 and (#s == 29 or s == '') then
  -- One token bucket. Its debt is in microseconds and parts of 1/limit.
  local start, prev, cur = 0, 0, n
  if s ~= '' then start, prev, cur = unpack('>I7I4I4', s, 15) end
  local whole, part = 0, 0
  if start >= now then whole, part = start - now, prev end
  local product = take * window
  if product < 9007199254740992 and whole + (part > 0 and 1 or 0) <= window
    and (cur == n or whole + part == 0) then
    local added = math.floor(product / n)
    if added * n > product then added = added - 1 end
    local after, rest = whole + added, part + product - added * n
    if rest >= n then after, rest = after + 1, rest - n end
    local retry = after - window
    if rest > 0 then retry = retry + 1 end
    local allowed = retry <= 0
    if allowed and cost > 0 then
      whole, part = after, rest
      call('SET', key, string.sub(prog, 3, 16) .. pack('>I7I4I4', now + whole, part, n), 'PX',
        math.ceil(window / 500) + 1)
    end
    local owing = n * (window - whole)
    local left
    if owing < 9007199254740992 then
      left = math.floor(owing / window)
      if left * window > owing then left = left - 1 end
      owing = owing - left * window
    else
      -- Long division, seven bits of n at a time.
      left, owing = 0, 0
      for shift = 28, 0, -7 do
        local x = owing * 128 + math.floor(n / 2 ^ shift) % 128 * (window - whole)
        local digit = math.floor(x / window)
        owing = x - digit * window
        if owing < 0 then
          digit, owing = digit - 1, owing + window
        elseif owing >= window then
          digit, owing = digit + 1, owing - window
        end
        left = left * 128 + digit
      end
    end
    if owing < part then left = left - math.ceil((part - owing) / window) end
    reply = pack('>I1I7I4I7I7I4I4', allowed and 1 or 0, now, left > 0 and left or 0, part > 0 and whole + 1
      or whole,
      allowed and 0 or retry, part, 0)
  end

elseif shape == 5 and group == 0 and limits == 1 and (#s == 29 or s == '') then
  -- One fixed window.
  local start, count, stored = now - now % window, 0, 0
  if s ~= '' then stored, _, count = unpack('>I7I4I4', s, 15) end
  if stored < start then count = 0 end
  local left, ends = n - count, start + window
  if stored <= start and take > left then
    reply = pack('>I1I7I4I7I7I8', 0, now, left > 0 and left or 0, count > 0 and ends - now or 0,
      ends - now, 0)
  elseif stored <= start then
    if cost > 0 and stored == start then
      call('SETRANGE', key, 25, pack('>I4', count + cost))
    elseif cost > 0 then
      call('SET', key, string.sub(prog, 3, 16) .. pack('>I7I4I4', start, 0, cost), 'PX',
        math.ceil((ends - now) / 1000) + 1)
    end
    reply = pack('>I1I7I4I7I7I8', 1, now, left - cost, count + cost > 0 and ends - now or 0, 0, 0)
  end
end
