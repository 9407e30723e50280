-- The same step as step.lua for two to four limits in several logs: one call, admitted;
-- state and program in step, a state that is read whole, from which nothing has to be
-- dropped and in which there is room. It leaves `reply` nil, and everything as it was,
-- for any other.
--
-- What is written: `head`, from `head_from` on, of the sections' numbers, and `data`,
-- from `data_from` on, of the slots behind them; both reach to before the byte `_to`,
-- offsets counting from 0. What lies between is written again where that is cheaper than
-- another command: a byte of a string costs 11 instructions, and is in two strings, where
-- a command costs 4,000. `earlier` and `before` are data further to the front.
local limits, numbers, version, count = string.byte(prog, 1, 4)
local at_head = 2 + 12 * count
local at_slots = at_head + numbers
local at_limit = at_head + 3
local sub = string.sub
if cost == 1 and limits < 5 and numbers == 30 * count and version == 2 and #s > at_slots and #s < 2048
  and sub(s, 1, at_head) == sub(prog, 3, at_limit - 1) then
  local head, head_from, head_to, data, data_from, data_to, slot, slot_width, slot_at = '', 0, 0, '', 0, 0
  local section, slots_at, group, span, fill, used, at, age, reach, format, width, modulus, zeros, filled = 0
  local left1, left2, left3, left4, next1, next2, next3, next4
  local earlier, earlier_from, before, before_from
  local ok = true
  for i = 1, limits do
    local n, window = unpack('>I4I7', prog, at_limit)
    at_limit = at_limit + 14
    local number = (window - window % 281474976710656) / 281474976710656
    window = window % 281474976710656
    if number ~= section then
      if number ~= section + 1 then
        ok = false
        break
      end
      local kind, wide = unpack('>I5I7', prog, 12 * number - 7)
      local rewritten, offset, capacity, _
      rewritten, offset, capacity, reach, _, fill = unpack('>I7I7I4I4I4I4', s, at_head + 1)
      section, group, at = number, kind % 4294967296, now + offset
      if group == 1 then fill = 1 end
      local since, unit = at - rewritten, 65536
      if wide < 0x5000000000000 then
        width, format, zeros, modulus, span, unit = 4, '>I4', '\0\0\0\0', 2147483648, wide - 0x4000000000000, 1
      elseif wide < 0x6000000000000 then
        width, format, zeros, modulus, span = 5, '>I5', '\0\0\0\0\0', 549755813888, wide - 0x5000000000000
      else
        width, format, zeros, modulus, span = 6, '>I6', '\0\0\0\0\0\0', 140737488355328, wide - 0x6000000000000
      end
      reach = reach * unit + since -- how old the oldest slot is at most
      used = string.find(s, zeros, at_slots + 1, true)
      if not used or kind - group ~= 4294967296 or since < 0 or reach >= span or offset >= 140737488355328 or fill > group then
        ok = false
        break
      end
      used = used - 2 - at_slots + width
      used = (used - used % width) / width
      if used < 1 or used >= capacity then
        ok = false
        break
      end
      age = (at - unpack(format, s, at_slots + used * width - width + 1)) % modulus
      if age > reach then
        ok = false
        break
      end
      if slot_width ~= width or slot_at ~= at then
        slot, slot_width, slot_at = pack(format, at % modulus + modulus), width, at
      end
      local from = at_slots + used * width
      filled = fill < group
      if filled then from = from - width end
      if data_to == 0 then
        data_from = from
      elseif from - data_to < 120 then
        data = data .. sub(s, data_to + 1, from)
      elseif not earlier then
        earlier, earlier_from, data, data_from = data, data_from, '', from
      elseif not before then
        before, before_from, data, data_from = data, data_from, '', from
      else
        data = data .. sub(s, data_to + 1, from)
      end
      if filled then
        data, data_to = data .. slot, from + width
      elseif used + 1 < capacity then
        data, data_to = data .. slot .. zeros, from + width + width -- whatever is behind it, the next slot is free
      else
        data, data_to = data .. slot, from + width
      end
      if group > 1 then
        if head_to == 0 then head_from = at_head + 26 else head = head .. sub(s, head_to + 1, at_head + 26) end
        head, head_to = head .. pack('>I4', filled and fill + 1 or 1), at_head + 30
      end
      slots_at, at_head, at_slots = at_slots + 1, at_head + 30, at_slots + capacity * width
    end
    local left, dead, next = n - 1, 0, window -- after the call
    if age < window then
      local live = age -- of the first slot that is alive
      if reach >= window then
        -- The first slot that is alive, from the oldest that can count.
        local last = used - 1
        if used > n then dead = used - n end
        local probe = dead
        while dead < last do
          local old = (at - unpack(format, s, slots_at + probe * width)) % modulus
          if old < window then last, live = probe, old else dead = probe + 1 end
          probe = (dead + last - (dead + last) % 2) / 2
        end
      elseif used > 1 then
        live = (at - unpack(format, s, slots_at)) % modulus
      end
      if dead < used - 1 or not filled then next = window - live end
      left = left - fill - (used - dead - 1) * group
      if left < 0 then
        ok = false
        break
      end
    elseif filled then
      left = left - fill -- the newest slot is filled up, and counts whole
      if left < 0 then left = 0 end
    end
    if i == 1 then
      left1, next1 = left, next
    elseif i == 2 then
      left2, next2 = left, next
    elseif i == 3 then
      left3, next3 = left, next
    else
      left4, next4 = left, next
    end
  end
  if ok and at_slots == #s then
    if head_to > 0 and not earlier and data_from - head_to < 120 then
      data, data_from = head .. sub(s, head_to + 1, data_from) .. data, head_from
    elseif head_to > 0 then
      call('SETRANGE', key, head_from, head)
    end
    if earlier then call('SETRANGE', key, earlier_from, earlier) end
    if before then call('SETRANGE', key, before_from, before) end
    call('SETRANGE', key, data_from, data)
    if limits == 2 then
      reply = pack('>I1I7I4I8I4I8', 3, now, left1, next1, left2, next2)
    elseif limits == 3 then
      reply = pack('>I1I7I4I8I4I8I4I8', 3, now, left1, next1, left2, next2, left3, next3)
    else
      reply = pack('>I1I7I4I8I4I8I4I8I4I8', 3, now, left1, next1, left2, next2, left3, next3, left4, next4)
    end
  end
end
