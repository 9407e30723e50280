-- The commonest steps by themselves: a state that one section fills and that is read
-- whole, in step with the program, from which nothing has to be dropped. It leaves
-- `reply` nil and everything as it was for any other. Straight code, without functions or
-- tables, and as few library calls as will do: each costs a fiftieth of the step.
--
-- Signatures are compared as two numbers: version, sections, kind and calls per slot;
-- bytes per slot and window. The age of a slot is taken modulo the slot's range: a
-- section's width leaves room for more than three windows, and a slot is never older.

if cost == 1 and #s >= 50 and #s < 2048 then
  -- One log, one call a slot.
  local about, first, second, n = unpack('>I2I7I7I4', prog)
  -- The last of these numbers begins with the oldest slot.
  local its_first, its_second, rewritten, offset, capacity, reach, _, _, begins = unpack('>I7I7I7I7I4I4I4I4I6', s)
  if about % 256 == 30 and first == 0x02010100000001 and its_first == first and its_second == second and offset < 140737488355328 then
    local width, format, zeros, modulus, window = 4, '>I4', '\0\0\0\0', 2147483648, second - 0x4000000000000
    if second >= 0x6000000000000 then
      width, format, zeros, modulus, window, reach = 6, '>I6', '\0\0\0\0\0\0', 140737488355328, second - 0x6000000000000, reach * 65536
    elseif second >= 0x5000000000000 then
      width, format, zeros, modulus, window, reach = 5, '>I5', '\0\0\0\0\0', 549755813888, second - 0x5000000000000, reach * 65536
      begins = (begins - begins % 256) / 256
    else
      begins = (begins - begins % 65536) / 65536
    end
    local at, used = now + offset, string.find(s, zeros, 45, true)
    if used then
      used = used - 46 + width
      used = (used - used % width) / width
    else
      used = capacity
    end
    local fits, age = #s == 44 + width * capacity, window -- the age of the newest slot
    if fits and used > 0 then age = (at - unpack(format, s, 45 + width * (used - 1))) % modulus end
    local since = at - rewritten
    local whole = used > 0 and used < capacity and since >= 0 and since + reach < window -- nothing stored is out of the window yet, and there is room
    if not fits or age > 2 * window + 10000 or since <= -window then
      whole = false
    elseif about == 286 then
      if used >= n then
        local oldest = (at - unpack(format, s, 45 + width * (used - n))) % modulus
        if oldest < window and age <= oldest then reply = pack('>I1I7I4I7I7I8', 0, now, 0, window - age, window - oldest, window - oldest) end
        whole = false
      elseif whole then
        reply = pack('>I1I7I4I8', 3, now, n - used - 1, window - (at - begins) % modulus)
      end
    elseif whole then
      local left = ''
      local i = 17
      while left and i < #prog do
        local its_n, _, its_window = unpack('>I4I1I6', prog, i)
        i = i + 14
        local live, oldest = used, (at - begins) % modulus
        if its_window < window then
          -- The first slot that is alive, from the oldest that can be on.
          local lo, hi = 0, used
          if used > its_n then lo = used - its_n end
          oldest = its_window
          if age < its_window then hi, oldest = used - 1, age end
          local probe = lo
          while lo < hi and age < its_window do
            local old = (at - unpack(format, s, 45 + width * probe)) % modulus
            if old < its_window then hi, oldest = probe, old else lo = probe + 1 end
            probe = (lo + hi - (lo + hi) % 2) / 2
          end
          live = used - hi
          oldest = its_window - oldest
          if live == 0 then oldest = its_window end
        else
          oldest = its_window - oldest
        end
        if live < its_n then left = left .. pack('>I4I8', its_n - live - 1, oldest) else left = nil end
      end
      whole = left
      if left then reply = pack('>I1I7', 3, now) .. left end
    end
    if reply and whole then
      local bytes = pack(format, at % modulus + modulus)
      if used + 1 < capacity then bytes = bytes .. zeros end -- whatever is behind it, the next slot is free
      call('SETRANGE', key, 44 + width * used, bytes)
    end
  end

elseif #s == 29 and cost >= 0 then
  -- One counter.
  local about, first, second, n = unpack('>I2I7I7I4', prog)
  local its_first, window, start, prev, cur = unpack('>I7I7I7I4I4', s)
  local elapsed, rolled = now - start, false
  if elapsed >= window and window > 0 and start % window == 0 then
    if elapsed < 2 * window then prev = cur else prev = 0 end
    cur, elapsed, rolled = 0, now % window, true
    start = now - elapsed
  end
  local weighted = prev * (window - elapsed)
  local take = cost
  if cost == 0 then take = 1 end
  if about == 271 and first == 0x02010300000000 and its_first == first and window == second and elapsed >= 0 and elapsed < window
    and start % window == 0 and weighted < 9007199254740992 and take <= n then
    local whole = 0 -- the previous window's share, rounded up
    if weighted > 0 then
      whole = weighted / window
      whole = whole - whole % 1
      if whole * window < weighted then whole = whole + 1 end
    end
    local left = n - cur - whole
    if take <= left then
      local reset = 2 * window - elapsed
      if cost > 0 and rolled then
        call('SET', key, string.sub(prog, 3, 16) .. pack('>I7I4I4', start, prev, cost), 'PX', math.ceil(reset / 1000) + 1)
      elseif cost > 0 then
        call('SETRANGE', key, 25, pack('>I4', cur + cost))
      elseif cur == 0 then
        reset = prev > 0 and window - elapsed or 0
      end
      if cost > 0 then
        reply = pack('>I1I7I4I4I4', 3, now, left - cost, prev, cur + cost)
      else
        reply = pack('>I1I7I4I7I7I4I4', 1, now, left, reset, 0, prev, cur)
      end
    else
      -- Free again when the share has shrunk to what the rest leaves: of the previous
      -- window in this one, or of this one in the next.
      local free, shrinking, ends = (n - cur - take) * window, prev, window
      if free < 0 then free, shrinking, ends = (n - take) * window, cur, 2 * window end
      if free < 9007199254740992 then
        local overlap = free / shrinking
        overlap = overlap - overlap % 1
        if overlap * shrinking > free then overlap = overlap - 1 end
        reply = pack('>I1I7I4I7I7I4I4', 0, now, left > 0 and left or 0, cur > 0 and 2 * window - elapsed or window - elapsed,
          ends - overlap - elapsed, prev, cur)
      end
    end
  end
end
