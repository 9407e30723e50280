-- The commonest step by itself: one log limit of less than nine minutes, one call a slot, a cost of 1, a state that is read whole. It leaves `reply` nil
-- and everything as it was for any other. Straight code, without functions or tables, and as few library calls as will do.
--
-- Signatures are compared as two numbers: version, sections, kind and calls per slot; bytes per slot and window. The age of a slot is taken modulo the
-- slot's range: a section's width leaves room for more than three windows, and a slot is never older.

if #s >= 44 and #s < 2048 and cost == 1 then
  local about, first, second, n = unpack('>I2I7I7I4', prog)
  local its_first, its_second, rewritten, offset, capacity, reach = unpack('>I7I7I7I7I4I4', s)
  if about == 270 and first == 0x02010100000001 and second < 0x5000000000000 and its_first == first and its_second == second
    and #s == 44 + 4 * capacity and offset < 140737488355328 then
    local window, at, used = second - 0x4000000000000, now + offset, string.find(s, '\0\0\0\0', 45, true)
    if used then used = (used - 42 - (used - 42) % 4) / 4 else used = capacity end
    local age, oldest = window, window
    if used > 0 then age = (at - unpack('>I4', s, 41 + 4 * used)) % 2147483648 end
    if used >= n then oldest = (at - unpack('>I4', s, 45 + 4 * (used - n))) % 2147483648 end
    if age <= 2 * window + 10000 then
      if oldest < window then
        reply = pack('>I1I7I4I7I7', 0, now, 0, window - age, window - oldest)
      elseif used > 0 and used < n and used < capacity and at >= rewritten and at - rewritten + reach < window then
        -- Nothing stored is out of the window yet.
        call('SETRANGE', key, 44 + 4 * used, pack('>I4', at % 2147483648 + 2147483648))
        reply = pack('>I1I7I4', 3, now, n - used - 1)
      end
    end
  end
end
