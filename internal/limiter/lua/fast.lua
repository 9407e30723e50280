-- The common steps, before the general one, which handles every case: a step of one limit
-- takes 8 us of the server's time here and 28 us there. open.lua describes the input. It
-- has no functions, since each costs as much as a tenth of this step; so it repeats how a
-- slot is read. It leaves reply nil and writes nothing for:
--   - what is given back or taken even where it does not fit;
--   - limits in shadow mode, that count denied calls, or with a calendar;
--   - a state that lacks a part, must grow, has deficits or is damaged;
--   - a clock that stepped back;
--   - parts that must be moved, in a state of 2048 bytes and more or with other parts.
--
-- One pass over the parts evaluates their limits and prepares what to write.
local byte, sub, floor, ceil = string.byte, string.sub, math.floor, math.ceil
local limits, version, count = byte(prog, 1, 3)
local ok, big, fresh = cost >= 0 and taken == 0 and version == 3, #s == 2048, s == ''
local take = cost == 0 and 1 or cost
local stored, heads = 0, 4
if #s > 4 then
  version, stored, heads = unpack('>I1I1I2', s)
  ok = ok and version == 1
end
local named, ids, widths, spans, keeps, largest = count
if counted ~= '' then
  -- The limits that only count: their sections join those of the program.
  ids, widths, spans, keeps, largest = {}, {}, {}, {}, {}
  local from, q, sections = prog, 3, count
  for pass = 1, 2 do
    for i = 1, sections do
      local kind, _, width, span, keep, requests = unpack('>I1I4I6I6I4I4', from, q + 1)
      local id = sub(from, q + 1, kind % 8 <= 2 and q + 5 or q + 11)
      local place = pass == 2 and ids[id]
      if place then
        if width > widths[place] then widths[place] = width end
        if span > spans[place] then spans[place] = span end
        if keep > keeps[place] then keeps[place] = keep end
        if requests > largest[place] then largest[place] = requests end
      elseif pass == 1 or kind % 16 < 8 then
        named = pass == 1 and i or named + 1
        ids[id], ids[named], spans[named], keeps[named] = named, sub(from, q + 1, q + 11), span, keep
        widths[named], largest[named] = width, requests
      end
      q = q + 25
    end
    from, q, sections = counted, 3, byte(counted, 3)
  end
end
-- What to write: the entries and slots of all parts; with patch, positions and bytes
-- alternating; or for one part where it is, tail at an offset.
local entries, slots = '', ''
local patches, tail, tail_at
-- The limits' results before and after the call. Those before are only needed if a limit
-- denies or the cost is 0.
local before, after, denied = '', '', false
local both = cost == 0 or limits > 1
local one = limits == 1 and not both -- the reply is packed at once
local moved, renew, ends = fresh, fresh, now
local patch = not fresh and (big or stored ~= named) -- write each part where it is
local single = named == 1 and not patch and not fresh
local p, d, i, j = 4, heads, 0, 1 -- offsets of the next entry and its slots; numbers of section and limit
local limit = 4 + 25 * count -- position of the next limit
local n, number, window = 0, 0, 0
if limits > 0 then n, number, window = unpack('>I4I1I6', prog, limit) end
while ok and i < named do
  i = i + 1
  local kind, group, width, need_span, need_keep
  if i <= count then
    kind, group, width, need_span, need_keep = unpack('>I1I4I6I6I4', prog, 25 * i - 21)
    if ids then width, need_span, need_keep = widths[i], spans[i], keeps[i] end
  else
    kind, group = unpack('>I1I4', ids[i])
    width, need_span, need_keep = widths[i], spans[i], keeps[i]
  end
  local raw = kind
  local calls = kind >= 16
  if calls then kind = kind - 16 end
  if kind == 2 or kind > 5 or (kind == 5 and group > 0) then
    ok = false
    break
  end
  local found = fresh
  if not fresh and #s >= p + 30 then
    local of_kind, of_group, of_width = unpack('>I1I4I6', s, p + 1)
    found = of_kind == raw and of_group == group and (kind == 1 or of_width == width)
  end
  if not found and not patch and i > 1 then -- begin again, with patches
    patch, i, j, limit, before, after = true, 0, 1, 4 + 25 * count, '', ''
    denied, renew, p, d = false, false, 4, heads
    if limits > 0 then n, number, window = unpack('>I4I1I6', prog, limit) end
  elseif not found then
    -- Look for the part from the first one on.
    patch, p, d = true, 4, heads
    for _ = 1, stored do
      if #s < p + 30 then break end
      local of_kind, of_group, of_width = unpack('>I1I4I6', s, p + 1)
      found = of_kind == raw and of_group == group and (kind == 1 or of_width == width)
      if found then break end
      if of_kind % 8 <= 2 then
        if #s < p + 56 then break end
        local room, deficits = unpack('>I3I1', s, p + 43)
        p, d = p + 56, d + room * of_width + 11 * deficits
      else
        p = p + 30
      end
    end
    if not found then
      ok = false
      break
    end
  end
  if i == 0 then -- begins again
  elseif kind == 1 then
    -- A log. The age of a slot is computed modulo the slot's range, which is more than
    -- three windows; no slot is older.
    local span, keep, since, base, offset = need_span, need_keep, 0, now, 0
    local dropped, room, idle, used, fill, deficits = 0, 0, 0, 0, group, 0
    local need_width = width
    if not fresh then
      if #s < p + 56 then
        ok = false
        break
      end
      local stored_width
      stored_width, since, span, keep, dropped, base, offset, room, deficits, idle, used, fill =
        unpack('>I6I4I6I3I4I7I7I3I1I4I3I3', s, p + 6)
      if used == 0 or stored_width < width or stored_width > 6 or need_span > span or need_keep > keep
        or deficits > 0 or span > 31622400000000 or keep > 200001 or used > room or fill > group
        or fill < 1 or now + offset < base or offset > 140737488355328
        or (not big and #s < d + room * stored_width) then
        ok = false
        break
      end
      width = stored_width
    end
    local format, modulus = '>I4', 2147483648
    if width == 5 then
      format, modulus = '>I5', 549755813888
    elseif width == 6 then
      format, modulus = '>I6', 140737488355328
    end
    local at, age, low = now + offset, span, used > keep and used - keep or 0 -- age of the newest slot
    local size = room * width
    if used > 0 and at - base < 2 * span then
      local q, bytes = d + (used - 1) * width, s
      if big then
        bytes = call('GETRANGE', key, q, q + width - 1)
        q = 0
        if #bytes < width then
          ok = false
          break
        end
      end
      age = (at - unpack(format, bytes, q + 1)) % modulus
      if age > 2 * span then -- the clock stepped back, or a damaged slot
        ok = false
        break
      end
    end
    local first_kept = low
    if age >= span then -- the log counts nothing any more
      if at - base >= 2 * span then at, offset = now, 0 end
      used, first_kept, fill, idle, since, span, keep = 0, 0, group, 0, 0, need_span, need_keep
      dropped = 0
      if width ~= need_width then -- the slots get shorter
        ok = false
        break
      end
    end
    while number == i do
      local want = calls and 1 or take
      if want > n then
        ok = false
        break
      end
      local spare = n - want - fill
      local deciding = used - 1 - (spare >= 0 and floor(spare / group) + 1 or 0)
      local left, reset, retry, next, first = n, 0, 0, 0, low
      if deciding >= 0 and used > 0 then
        local q, bytes = d + deciding * width, s
        if big then
          bytes = call('GETRANGE', key, q, q + width - 1)
          q = 0
          if #bytes < width then
            ok = false
            break
          end
        end
        local old = (at - unpack(format, bytes, q + 1)) % modulus
        if old < window then
          retry, denied = window - old, true
        elseif deciding >= low then
          first = deciding + 1
        end
      end
      if used > 0 and age < window then
        -- Find the oldest slot in the window by binary search, from the oldest candidate.
        local hi, probe, live = used - 1, first, age
        while first < hi do
          local q, bytes = d + probe * width, s
          if big then
            bytes = call('GETRANGE', key, q, q + width - 1)
            q = 0
            if #bytes < width then break end
          end
          local old = (at - unpack(format, bytes, q + 1)) % modulus
          if old < window then hi, live = probe, old else first = probe + 1 end
          probe = floor((first + hi) / 2)
        end
        left, reset, next = n - fill - (used - 1 - hi) * group, window - age, window - live
        if left < 0 and want > 1 then
          ok = false
          break
        elseif left < 0 then -- owed: as many calls must leave the window first
          left, next = 2147483648 - (left < -n and -n or left), retry
        end
      end
      local begun = since > 0 and since > floor((now - window) / 1000000) and since or 0
      local low_next = next % 4294967296
      if both or denied then
        before = before .. pack('>I4I7I7I4I4I4', left, reset, retry, (next - low_next) / 4294967296,
          low_next, begun)
      end
      if not denied then
        -- If the newest slot is the only one and is filled up, its time moves.
        if left == n or (group > 1 and fill < group and n - left <= fill) then next = window end
        -- If it is not in this window, its calls move into it.
        if group > 1 and fill < group and left == n then left = left - fill end
        if left < want then
          ok = false
          break
        end
        low_next = next % 4294967296
        if one then
          after = pack('>I1I7I4I7I7I4I4I4', 1, now, left - want, window, 0,
            (next - low_next) / 4294967296, low_next, begun)
        else
          after = after .. pack('>I4I7I7I4I4I4', left - want, window, 0, (next - low_next) / 4294967296,
            low_next, begun)
        end
      end
      j, limit = j + 1, limit + 14
      if j > limits then number = 0 else n, number, window = unpack('>I4I1I6', prog, limit) end
    end
    if ok and cost > 0 and not denied then
      local from, more, old_used = used, calls and 1 or cost, used
      if more > (keep - 1) * group then -- calls of this step would be dropped
        ok = false
        break
      end
      if used > 0 and fill < group then
        from = used - 1
        local added = group - fill
        if added > more then added = more end
        fill, more = fill + added, more - added
      end
      if more > 0 then
        local added = ceil(more / group)
        fill, used = more - (added - 1) * group, used + added
      end
      if need_span >= span then
        idle = 0
      elseif idle == 0 then
        idle = ceil(now / 1000000)
      elseif now - idle * 1000000 >= span then
        ok = false
      end
      local newest = pack(format, at % modulus + modulus)
      if used - from > 1 then newest = string.rep(newest, used - from) end
      if old_used == 0 or used > room or at - base >= span then
        -- Rewrite the log: drop the slots that no longer count, and leave room for more.
        if big then
          ok = false
          break
        end
        local lo, hi = first_kept, old_used
        if age < span then
          while lo < hi do
            local mid = floor((lo + hi) / 2)
            local age = (at - unpack(format, s, d + mid * width + 1)) % modulus
            if age < span then hi = mid else lo = mid + 1 end
          end
          if used - lo > keep then
            lo = used - keep
            dropped = ceil((at - (at - unpack(format, s, d + (lo - 1) * width + 1)) % modulus) / 1000000)
          end
        end
        local requests = ids and largest[i] or unpack('>I4', prog, 25 * i)
        local kept = used - lo
        local most = ceil(requests / group)
        if kept > most then most = kept end
        room = 3
        if kept > 1 then
          room = floor(kept * 3 / 2) + 8
          most = floor(most * 11 / 10) + 1
          if room > most then room = most end
          if room < kept then room = kept end
        end
        newest = sub(s, d + lo * width + 1, d + from * width) .. newest
          .. string.rep('\0', (room - kept) * width)
        moved, renew, base, used = true, true, at, kept
        ok = not patch
      elseif patch then
        patches = patches or {}
        local k = #patches
        patches[k + 1], patches[k + 2] = p + 46, pack('>I4I3I3', idle, used, fill)
        patches[k + 3], patches[k + 4] = d + from * width, newest
      elseif single and d == p + 56 then
        tail_at, tail = p + 46, pack('>I4I3I3', idle, used, fill) .. sub(s, d + 1, d + from * width) .. newest
      else
        newest = sub(s, d + 1, d + from * width) .. newest .. sub(s, d + used * width + 1, d + size)
      end
      if not patch and not tail then
        entries = entries .. pack('>I1I4I6I4I6I3I4I7I7I3I1I4I3I3', raw, group, width, since, span, keep,
          dropped, base, offset, room, 0, idle, used, fill)
        slots = slots .. newest
      end
      if base - offset + 2 * span > ends then ends = base - offset + 2 * span end
    end
    p, d = p + 56, d + size
  else
    local since, start, prev, cur = 0, 0, 0, 0
    if not fresh then
      if #s < p + 30 then
        ok = false
        break
      end
      since, start, prev, cur = unpack('>I4I7I4I4', s, p + 12)
    end
    local span, expires = width, 0
    local whole, part = 0, 0
    if kind == 4 then
      if start >= now then whole, part = start - now, prev else cur = 0 end
      if whole > span then ok = false end
    else
      local begin = now - now % span
      if start > begin then ok = false end
      if start < begin then
        if kind == 3 and start == begin - span then prev, cur = cur, 0 else prev, cur = 0, 0 end
        start, renew = begin, true
      end
    end
    if not ok then break end
    local want = calls and 1 or take
    local after_whole, after_part = 0, 0
    if kind == 4 then
      local product = want * span
      if product >= 9007199254740992 then
        ok = false
        break
      end
      local added = floor(product / group)
      if added * group > product then added = added - 1 end
      after_whole, after_part = whole + added, part + product - added * group
      if after_part >= group then after_whole, after_part = after_whole + 1, after_part - group end
    end
    while number == i do
      if want > n or cur > 1000000000 then
        ok = false
        break
      end
      local left, reset, retry, first, second, from = n - cur, 0, 0, 0, 0, start
      local left_after, reset_after, first_after, second_after = 0, 0, 0, 0
      if kind == 5 then
        local ends_in = start + span - now
        if cur > 0 then reset = ends_in end
        if want > left then retry = ends_in end
        left_after, reset_after = left - want, ends_in
      elseif kind == 3 then
        local elapsed = now - start
        local product = prev * (span - elapsed)
        if product >= 9007199254740992 then
          ok = false
          break
        end
        left = left - ceil(product / span)
        if cur > 0 then reset = 2 * span - elapsed elseif prev > 0 then reset = span - elapsed end
        first, second, first_after, second_after = prev, cur, prev, cur + want
        if want > left then
          if (cur + want) * span >= 9007199254740992 or n * span >= 9007199254740992 then
            ok = false
            break
          end
          if cur + want <= n then
            retry = span - floor((n - cur - want) * span / prev) - elapsed
          else
            retry = 2 * span - floor((n - want) * span / cur) - elapsed
          end
        end
        left_after, reset_after = left - want, 2 * span - elapsed
      else
        reset, first = part > 0 and whole + 1 or whole, part
        retry = (after_part > 0 and after_whole + 1 or after_whole) - span
        if retry < 0 then retry = 0 end
        reset_after, first_after = after_part > 0 and after_whole + 1 or after_whole, after_part
        -- The tokens left before the call if they are needed, and after it.
        for pass = both and 1 or retry > 0 and 1 or 2, retry == 0 and 2 or 1 do
          local owed, part_owed, tokens = whole, part, 0
          if pass == 2 then owed, part_owed = after_whole, after_part end
          local rest = group * (span - owed)
          if rest < 9007199254740992 then
            tokens = floor(rest / span)
            if tokens * span > rest then tokens = tokens - 1 end
            rest = rest - tokens * span
          else
            -- Long division, seven bits of the limit at a time.
            rest = 0
            for shift = 28, 0, -7 do
              local x = rest * 128 + floor(group / 2 ^ shift) % 128 * (span - owed)
              local digit = floor(x / span)
              rest = x - digit * span
              if rest < 0 then
                digit, rest = digit - 1, rest + span
              elseif rest >= span then
                digit, rest = digit + 1, rest - span
              end
              tokens = tokens * 128 + digit
            end
          end
          if rest < part_owed then tokens = tokens - ceil((part_owed - rest) / span) end
          if pass == 1 then left = tokens else left_after = tokens end
        end
        if not both and retry == 0 then left = 0 end
        from = now - span
      end
      if left < 0 then
        ok = false
        break
      end
      local begun = since > 0 and since > floor(from / 1000000) and since or 0
      if retry > 0 then denied = true end
      if both or denied then
        before = before .. pack('>I4I7I7I4I4I4', left, reset, retry, first, second, begun)
      end
      if not denied then
        if one then
          after = pack('>I1I7I4I7I7I4I4I4', 1, now, left_after, reset_after, 0, first_after, second_after,
            begun)
        else
          after = after .. pack('>I4I7I7I4I4I4', left_after, reset_after, 0, first_after, second_after, begun)
        end
      end
      j, limit = j + 1, limit + 14
      if j > limits then number = 0 else n, number, window = unpack('>I4I1I6', prog, limit) end
    end
    if ok and cost > 0 and not denied then
      if kind == 4 then
        if after_whole >= 2 * span then -- calls may be dropped
          ok = false
          break
        end
        start, prev, renew = now + after_whole, after_part, true
        expires = start + 1
      else
        cur = cur + want
        if cur > 2000000000 then cur = 2000000000 end
        expires = start + (kind == 3 and 2 or 1) * span
      end
      if patch then
        patches = patches or {}
        patches[#patches + 1] = p + 15
        patches[#patches + 1] = pack('>I7I4I4', start, prev, cur)
      elseif single and not renew then
        tail_at, tail = p + 15, pack('>I7I4I4', start, prev, cur)
      else
        entries = entries .. pack('>I1I4I6I4I7I4I4', raw, group, width, since, start, prev, cur)
      end
      if expires > ends then ends = expires end
    end
    p = p + 30
  end
end
ok = ok and j > limits
if not ok then
elseif denied or cost == 0 then
  reply = pack('>I1I7', denied and 0 or 1, now) .. before
elseif patch then
  for k = 1, #patches, 2 do call('SETRANGE', key, patches[k], patches[k + 1]) end
  if renew then call('PEXPIRE', key, ceil((ends - now) / 1000) + 1, 'GT') end
elseif not fresh and (p ~= heads or d ~= #s) then
  ok = false
elseif tail then
  call('SETRANGE', key, tail_at, tail)
elseif renew then
  call('SET', key, pack('>I1I1I2', 1, named, 4 + #entries) .. entries .. slots, 'PX',
    ceil((ends - now) / 1000) + 1)
else
  call('SETRANGE', key, 4, entries .. slots)
end
if ok and not reply then reply = one and after or pack('>I1I7', 1, now) .. after end
