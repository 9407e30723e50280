-- The same step as step.lua, for the shapes that nearly every subject has: one section, state and program in step, nothing out of the ordinary. It
-- leaves `reply` nil, and everything as it was, for what it does not handle: several sections, refunds, another signature, a clock that stepped back,
-- products above 2^53, bytes that are no state of ours. Straight code, without functions or tables: each would cost a tenth of the whole step.
--
-- Offsets: the program's limits start at byte 17, its window of the section at byte 11; the state's section at byte 15, the slots of a log at byte
-- 45.

local shape = sub(prog, 2, 5)
local take = cost
if cost == 0 then take = 1 end

if cost < 0 or (s ~= '' and sub(s, 1, 14) ~= sub(prog, 3, 16)) then
  shape = ''
end

if shape == '\14\2\1\1' then
  -- One log. The age of a slot is taken modulo the slot's range: a section's width leaves room for more than three windows, and a slot is never
  -- older.
  local limits, width = byte(prog, 1), byte(prog, 10)
  local group, span = unpack('>I4I1I6', prog, 6), unpack('>I6', prog, 11)
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
      rewritten, offset, capacity, used, fill = unpack('>I7I7I4I4I4', s, 15)
      if group == 1 then fill = 1 end
      if not big then
        local free = string.find(s, zeros, 45, true)
        used = free and floor((free - 46 + width) / width) or capacity
        ok = ok and #s == 44 + capacity * width
      end
      ok = ok and used <= capacity and offset < 140737488355328 and fill <= group
    end
  end
  local at = now + offset
  local age = span -- of the newest slot
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
  local first_live = used -- of the section's window
  local tail = ''
  local i = 0
  while ok and i < limits do
    local n, _, window = unpack('>I4I1I6', prog, 17 + 14 * i)
    i = i + 1
    if take > n then
      ok = false
      break
    end
    local deciding, lo = used - n + take - 1, used - n
    if group > 1 then
      deciding, lo = used - 1, 0
      local spare = n - take - fill
      if spare >= 0 then deciding = used - floor(spare / group) - 2 end
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
    if deciding >= 0 and oldest < window then
      -- Denied. With a cost of 1 and one call a slot nothing remains; else the general step counts what does.
      ok = limits == 1 and take == 1 and group == 1
      if ok then reply = pack('>I1I7I4I7I7', 0, now, 0, window - age, window - oldest) end
      ok = false
      break
    end
    if lo < 0 then lo = 0 end
    local first = used
    if age < window then
      local hi = used - 1 -- the newest is alive: find the first that is, starting with the oldest candidate
      local probe = lo
      while lo < hi do
        local p = 44 + probe * width
        local bytes = s
        if big then
          bytes = call('GETRANGE', key, p, p + width - 1)
          p = 0
          if #bytes ~= width then break end
        end
        if (at - unpack(format, bytes, p + 1)) % modulus < window then hi = probe else lo = probe + 1 end
        probe = floor((lo + hi) / 2)
      end
      first = hi
    end
    if window == span then first_live = first end
    local left = n
    if first < used then left = n - fill - (used - first - 1) * group end
    if cost > 0 then
      tail = tail .. pack('>I4I7I7', left - cost, window, 0)
    else
      tail = tail .. pack('>I4I7I7', left > 0 and left or 0, first < used and window - age or 0, 0)
    end
  end
  if ok and cost == 0 then
    reply = pack('>I1I7', 1, now) .. tail
  elseif ok then
    -- Admitted: fill up the newest slot, add more.
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
    local slots = rep(pack(format, at % modulus + modulus), used + more - from)
    local since = at - rewritten
    if used + more > capacity or since >= span or since <= -span then
      local most = math.ceil(unpack('>I4', prog, 17) / group) + 1
      for k = 1, limits - 1 do
        local n = unpack('>I4', prog, 17 + 14 * k)
        if n >= most then most = n + 1 end
      end
      local live = ''
      if first_live < from then
        if big then
          live = call('GETRANGE', key, 44 + first_live * width, 43 + from * width)
        else
          live = sub(s, 45 + first_live * width, 44 + from * width)
        end
      end
      local count = used + more - first_live
      local room = floor(count * 3 / 2)
      if room > most + floor(most / 8) then room = most + floor(most / 8) end
      room = room + 4
      if room < count then room = count end
      call('SET', key, sub(prog, 3, 16) .. pack('>I7I7I4I4I4I4', at, offset, room, count, fill, 0) .. live .. slots
        .. rep(zeros, room - count), 'PX', math.ceil(span / 500) + 1)
    else
      if big or group > 1 then call('SETRANGE', key, 32, pack('>I4I4', used + more, fill)) end
      call('SETRANGE', key, 44 + from * width, slots)
    end
    reply = pack('>I1I7', 1, now) .. tail
  end

elseif shape == '\14\2\1\3' and #s == 29 then
  -- One counter, inside the window in which it last counted.
  local n, _, window = unpack('>I4I1I6', prog, 17)
  local start, prev, cur = unpack('>I7I4I4', s, 15)
  local elapsed = now - start
  local weighted = prev * (window - elapsed)
  if elapsed >= 0 and elapsed < window and start % window == 0 and weighted < 9007199254740992 and take <= n then
    local q = floor(weighted / window)
    local r = weighted - q * window
    if r > 0 then q = q + 1 elseif r <= -window then q = q - 1 end
    local left = n - cur - q
    if take <= left then
      local reset = 2 * window - elapsed
      if cost > 0 then
        call('SETRANGE', key, 25, pack('>I4', cur + cost))
      elseif cur == 0 then
        reset = prev > 0 and window - elapsed or 0
      end
      reply = pack('>I1I7I4I7I7', 1, now, left - cost, reset, 0)
    elseif cur + take <= n then
      local free = (n - cur - take) * window
      if free < 9007199254740992 then
        local overlap = floor(free / prev)
        if overlap * prev > free then overlap = overlap - 1 end
        reply = pack('>I1I7I4I7I7', 0, now, left > 0 and left or 0, cur > 0 and 2 * window - elapsed or window - elapsed, window - overlap - elapsed)
      end
    else
      local free = (n - take) * window
      if free < 9007199254740992 then
        local overlap = floor(free / cur)
        if overlap * cur > free then overlap = overlap - 1 end
        reply = pack('>I1I7I4I7I7', 0, now, left > 0 and left or 0, 2 * window - elapsed, 2 * window - overlap - elapsed)
      end
    end
  end

elseif shape == '\14\2\1\3' and s == '' and cost > 0 and byte(prog, 1) == 1 then
  -- A counter's first call.
  local n, _, window = unpack('>I4I1I6', prog, 17)
  if cost <= n then
    local elapsed = now % window
    call('SET', key, sub(prog, 3, 16) .. pack('>I7I4I4', now - elapsed, 0, cost), 'PX', math.ceil((2 * window - elapsed) / 1000) + 1)
    reply = pack('>I1I7I4I7I7', 1, now, n - cost, 2 * window - elapsed, 0)
  end
end
