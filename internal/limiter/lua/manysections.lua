-- A shortcut for the general step, for several sections, counters, and logs that count
-- denied calls ("attempts"). It saves 40 % of the time of a whole check of two limits.
--
-- readstate.lua describes the input and output. The shortcut leaves reply nil and writes
-- nothing for:
--   - calendars;
--   - refunds, and reservations on a token bucket;
--   - a state with another signature, or a damaged one;
--   - a clock that stepped back;
--   - products of 2^53 and more, except a bucket's window times its limit;
--   - limits of one log with another section's limit between them;
--   - a denied attempt that several sections count;
--   - slots that move in a state of more than 2,048 bytes.
--
-- One pass over the limits decides, and builds two patches of the state: head for the
-- sections' numbers, which follow the signature, and data for the slots after them. A
-- patch replaces the bytes from head_from to before head_to, or from data_from to before
-- data_to. These offsets count from 0.
local limits, numbers, version, count = string.byte(prog, 1, 4)
local signed = 2 + 12 * count -- length of the signature
local signature = string.sub(prog, 3, 2 + signed)
local fresh = s == ''
local big = #s == 2048
local take = cost
if cost == 0 then take = 1 end
local ok = cost >= 0 and version == 2 and (fresh
  or (#s >= signed + numbers and string.find(s, signature, 1, true) == 1))
local denied, only_logs, attempts, rewrite, life = false, true, false, fresh, 0
local head, head_from, head_to = '', signed, signed
local data, data_from, data_to = '', signed + numbers, signed + numbers
local writes -- for a big state: positions and bytes of slots, alternating
-- For each limit before and after the call: remaining, reset, retry-after (us) and the
-- two numbers from which the reader computes when remaining rises.
local before, after = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  0, 0, 0}

-- Returns the tokens in a bucket, rounded down: requests * (free - part / requests) /
-- span. free and span are in microseconds, part is in 1/requests of a microsecond.
local function tokens(requests, free, part, span)
  local whole, rest = 0, requests * free
  if rest < 9007199254740992 then
    whole = rest / span
    whole = whole - whole % 1
    if whole * span > rest then whole = whole - 1 end
    rest = rest - whole * span
  else
    -- Long division, seven bits at a time.
    rest = 0
    for shift = 28, 0, -7 do
      local x = rest * 128 + math.floor(requests / 2 ^ shift) % 128 * free
      local digit = math.floor(x / span)
      rest = x - digit * span
      if rest < 0 then
        digit, rest = digit - 1, rest + span
      elseif rest >= span then
        digit, rest = digit + 1, rest - span
      end
      whole = whole * 128 + digit
    end
  end
  if rest < part then whole = whole - math.ceil((part - rest) / span) end
  return whole
end

local at_head, at_slots = signed, signed + numbers -- numbers and slots of the current section
local section, kind, group, width, span, most = 0, 0, 0, 0, 0, 0
local format, zeros, modulus, at, rewritten, offset, capacity, keep, used, fill, base, age, first_live, reach
local i, k = 0, 0
local n, window = unpack('>I4I7', prog, 3 + signed)
while ok and i < limits do
  i = i + 1
  local number = (window - window % 281474976710656) / 281474976710656
  window = window % 281474976710656
  if number ~= section then
    if number ~= section + 1 then
      ok = false
      break
    end
    local what, wide = unpack('>I5I7', prog, 12 * number - 7)
    section, group, span, most = number, what % 4294967296, wide % 281474976710656, 0
    kind, width = (what - group) / 4294967296, (wide - span) / 281474976710656
    if kind <= 2 then
      format, zeros, modulus = '>I4', '\0\0\0\0', 2147483648
      if width == 5 then
        format, zeros, modulus = '>I5', '\0\0\0\0\0', 549755813888
      elseif width == 6 then
        format, zeros, modulus = '>I6', '\0\0\0\0\0\0', 140737488355328
      end
      rewritten, offset, capacity, keep, used, fill, base, age, reach = now, 0, 0, 0, 0, 1, 0, span, span
      if not fresh then
        rewritten, offset, capacity, keep = unpack('>I7I7I4I4', s, at_head + 1)
        if big or group > 1 then used, fill = unpack('>I4I4', s, at_head + 23) end
        if group == 1 then fill = 1 end
        local since = now + offset - rewritten
        -- The clock stepped back so far that the ages of slots wrap around.
        if since <= -span then ok = false end
        if since >= 2 * span then
          used = 0 -- slots are at most a window younger than the rewrite, so all have left
        elseif not big then
          local free = string.find(s, zeros, at_slots + 1, true)
          used = capacity
          if free then
            used = free - 2 - at_slots + width
            used = (used - used % width) / width
            if used > capacity then used = capacity end
          end
        end
        ok = ok and used <= capacity and offset < 140737488355328 and fill <= group
          and (big or at_slots + capacity * width <= #s)
      end
      at = now + offset
      if ok and used > 0 then
        local bytes, p = s, at_slots + (used - 1) * width
        if big then
          bytes = call('GETRANGE', key, p, p + width - 1)
          p = 0
          ok = #bytes == width
        end
        if ok then age = (at - unpack(format, bytes, p + 1)) % modulus end
        ok = ok and age <= 2 * span + 10000
      end
      first_live = used
      if kind == 2 then
        attempts = true
        if keep > 0 and used > keep then base = used - keep end
      elseif at >= rewritten then
        reach = keep -- greatest age of the oldest slot
        if width > 4 then reach = reach * 65536 end
        reach = reach + at - rewritten
      end
      if 2 * span > life then life = 2 * span end
    end
  end
  if n > most then most = n end
  ok = ok and take <= n
  if not ok then break end

  local left, reset, retry, left_after, reset_after, retry_after = n, 0, 0, 0, window, 0
  local next, second, next_after, second_after = 0, 0, 0, 0
  if kind <= 2 then
    -- The slot that must have left the window, and the oldest slot that may count.
    local deciding, lo = used - n + take - 1, used - n
    if group > 1 then
      local spare = n - take - fill
      deciding = used - 1
      if spare >= 0 then deciding = used - (spare - spare % group) / group - 2 end
      lo = used - (n - n % group) / group - 2
    end
    if kind == 2 then
      lo = base
      if count == 1 and cost > 0 and not big then
        -- The reply includes a denied attempt that was counted.
        local next = deciding + take
        if next >= used then
          retry_after = window
        elseif next >= 0 then
          retry_after = window - (at - unpack(format, s, at_slots + next * width + 1)) % modulus
        end
      end
    end
    if deciding >= base then
      local bytes, p = s, at_slots + deciding * width
      if big then
        bytes = call('GETRANGE', key, p, p + width - 1)
        p = 0
        if #bytes ~= width then
          ok = false
          break
        end
      end
      local oldest = (at - unpack(format, bytes, p + 1)) % modulus
      if oldest < window then
        if age > oldest then
          ok = false
          break
        end
        denied, retry = true, window - oldest
      end
    end
    left_after, next_after = n - take, window
    if age < window then
      -- The newest slot is in the window. Find the first one that is in it.
      local hi = used - 1
      if lo < base then lo = base end
      local live = age -- age of the first slot in the window
      if reach < window and lo < hi then
        hi = lo
        local bytes, p = s, at_slots + lo * width
        if big then
          bytes = call('GETRANGE', key, p, p + width - 1)
          p = 0
          if #bytes ~= width then
            ok = false
            break
          end
        end
        live = (at - unpack(format, bytes, p + 1)) % modulus
      end
      local probe = lo
      while lo < hi do
        local bytes, p = s, at_slots + probe * width
        if big then
          bytes = call('GETRANGE', key, p, p + width - 1)
          p = 0
          if #bytes ~= width then
            ok = false
            break
          end
        end
        local old = (at - unpack(format, bytes, p + 1)) % modulus
        if old < window then hi, live = probe, old else lo = probe + 1 end
        probe = (lo + hi - (lo + hi) % 2) / 2
      end
      if window == span then first_live = hi end
      left = n - fill - (used - hi - 1) * group
      left_after, reset, next = left - take, window - age, window - live
      if hi < used - 1 or group == 1 or fill == group then next_after = next end
      if left < 0 then
        if take > 1 and (kind == 1 or count > 1) then
          ok = false -- several slots must leave the window first
          break
        end
        next = retry
      end
      if left_after < 0 and kind == 2 and count == 1 and cost > 0 and not big then
        next_after = window -- a denied attempt that was counted
        if deciding + 1 < used then
          next_after = window - (at - unpack(format, s, at_slots + (deciding + 1) * width + 1)) % modulus
        end
      end
      second, second_after = next % 4294967296, next_after % 4294967296
      next, next_after = (next - second) / 4294967296, (next_after - second_after) / 4294967296
    elseif age < span and fill < group then
      left_after = left_after - fill -- the call moves the newest slot into the window, with all its calls
    end
    if age >= window then
      second_after = window % 4294967296
      next_after = (window - second_after) / 4294967296
    end
  else
    only_logs = false
    local start, prev, cur = 0, 0, 0
    if not fresh then start, prev, cur = unpack('>I7I4I4', s, at_head + 1) end
    if kind == 3 then
      local elapsed = now - start
      if elapsed >= window or fresh then
        if elapsed < 2 * window and not fresh then prev = cur else prev = 0 end
        if start % window ~= 0 then
          ok = false
          break
        end
        cur, elapsed = 0, now % window
        start, rewrite = now - elapsed, true
      end
      local weighted = prev * (window - elapsed)
      if elapsed < 0 or weighted >= 9007199254740992 or start % window ~= 0 then
        ok = false
        break
      end
      left = n - cur
      if weighted > 0 then
        local whole = weighted / window
        whole = whole - whole % 1
        if whole * window < weighted then whole = whole + 1 end
        left = left - whole
      end
      reset_after = 2 * window - elapsed
      if cur > 0 then reset = reset_after elseif prev > 0 then reset = window - elapsed end
      if take > left then
        -- The cost passes when the weight of the previous window has become small enough,
        -- or in the next window when the weight of this one has.
        local free, shrinking, ends = (n - cur - take) * window, prev, window
        if free < 0 then free, shrinking, ends = (n - take) * window, cur, 2 * window end
        if free >= 9007199254740992 then
          ok = false
          break
        end
        local overlap = free / shrinking
        overlap = overlap - overlap % 1
        if overlap * shrinking > free then overlap = overlap - 1 end
        denied, retry = true, ends - overlap - elapsed
      end
      next, second, next_after, second_after = prev, cur, prev, cur + take
      left_after, cur = left - take, cur + take
      if reset_after > life then life = reset_after end
    elseif kind == 4 then
      local whole, part = 0, 0
      if start >= now then whole, part = start - now, prev end
      local product = take * window
      if refund == -1 or product >= 9007199254740992 or whole + (part > 0 and 1 or 0) > window
        or (cur ~= n and whole + part > 0) then
        ok = false
        break
      end
      left = tokens(n, window - whole, part, window)
      reset, next = part > 0 and whole + 1 or whole, part
      local added = product / n
      added = added - added % 1
      if added * n > product then added = added - 1 end
      whole, part = whole + added, part + product - added * n
      if part >= n then whole, part = whole + 1, part - n end
      retry = part > 0 and whole + 1 - window or whole - window
      if retry > 0 then denied = true else left_after = tokens(n, window - whole, part, window) end
      reset_after, next_after = part > 0 and whole + 1 or whole, part
      start, prev, cur, rewrite = now + whole, part, n, true
      if 2 * window > life then life = 2 * window end
    else
      local begin = now - now % window
      if group > 0 or start > begin then -- a calendar, a clock that stepped back
        ok = false
        break
      end
      if start < begin then start, prev, cur, rewrite = begin, 0, 0, true end
      left = n - cur
      reset_after = begin + window - now
      if cur > 0 then reset = reset_after end
      if take > left then denied, retry = true, reset_after end
      left_after, cur = left - take, cur + take
      if reset_after > life then life = reset_after end
    end
    if not denied then
      if head_to == signed then
        head_from = at_head
      elseif head_to < at_head then
        head = head .. string.sub(s, head_to + 1, at_head)
      end
      head, head_to = head .. pack('>I7I4I4', start, prev, cur), at_head + 15
    end
    at_head = at_head + 15
  end
  if left < 0 then left = 0 end
  if retry < 0 then retry = 0 end
  before[k + 1], before[k + 2], before[k + 3], before[k + 4], before[k + 5] = left, reset, retry, next, second
  if left_after < 0 then left_after = 0 end
  after[k + 1], after[k + 2], after[k + 3] = left_after, reset_after, retry_after > 0 and retry_after or 0
  after[k + 4], after[k + 5] = next_after, second_after
  k = k + 5

  local last = i == limits
  if not last then
    n, window = unpack('>I4I7', prog, 3 + signed + 14 * i)
    last = window >= (section + 1) * 281474976710656
  end
  if last and kind <= 2 then
    if cost > 0 and (not denied or (kind == 2 and count == 1)) then
      -- Fill up the newest slot, then add slots.
      local from, more = used, cost
      if group > 1 then
        if age < span and fill < group then
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
      local slots_needed = math.ceil(most / group)
      if kind == 2 and used > 0 and keep ~= slots_needed + 1 then
        ok = false
        break
      end
      if used + more > capacity or age >= span or at - rewritten >= span then
        if big then
          ok = false
          break
        end
        local least = used + more - slots_needed - 1 -- older slots of attempts do not count
        if kind == 2 and first_live < least then first_live = least end
        if first_live < base then first_live = base end
        local live = ''
        if first_live < from then
          live = string.sub(s, at_slots + first_live * width + 1, at_slots + from * width)
        end
        local number_of_slots = used + more - first_live
        local room = number_of_slots > 1
          and math.floor(math.min(number_of_slots * 1.5 + 8, slots_needed * 1.1 + 4)) or 3
        if room < number_of_slots then room = number_of_slots end
        if kind == 2 then
          keep = slots_needed + 1
        else
          keep = 0
          if live ~= '' then keep = (at - unpack(format, live)) % modulus end
          if width > 4 then keep = math.ceil(keep / 65536) end
        end
        if head_to == signed then
          head_from = at_head
        elseif head_to < at_head then
          head = head .. string.sub(s, head_to + 1, at_head)
        end
        head, head_to = head .. pack('>I7I7I4I4I4I4', at, offset, room, keep, number_of_slots, fill),
          at_head + 30
        if data_to == signed + numbers then
          data_from = at_slots
        elseif data_to < at_slots then
          data = data .. string.sub(s, data_to + 1, at_slots)
        end
        data, data_to = data .. live .. slots .. string.rep(zeros, room - number_of_slots),
          at_slots + capacity * width
        rewrite = true
      else
        -- The slot after the written ones must be free, whatever the state has there.
        if used + more < capacity then slots = slots .. zeros end
        if group > 1 or big then
          if head_to == signed then
            head_from = at_head + 22
          else
            head = head .. string.sub(s, head_to + 1, at_head + 22)
          end
          head, head_to = head .. pack('>I4I4', used + more, fill), at_head + 30
        end
        local p = at_slots + from * width
        if big then
          writes = writes or {}
          writes[#writes + 1] = p
          writes[#writes + 1] = slots
        else
          if data_to == signed + numbers then
            data_from = p
          elseif data_to < p then
            data = data .. string.sub(s, data_to + 1, p)
          end
          data, data_to = data .. slots, p + #slots
        end
      end
    end
    at_head, at_slots = at_head + 30, at_slots + capacity * width
  end
end

ok = ok and (big or fresh or at_slots == #s)
local counts = cost > 0 and (not denied or attempts) -- the call is recorded
if ok and denied and attempts and cost > 0 then ok = count == 1 and group == 1 and not big end
local state
if ok and counts and rewrite and not big then
  state = signature .. string.sub(s, signed + 1, head_from) .. head
    .. string.sub(s, head_to + 1, data_from) .. data .. string.sub(s, data_to + 1)
  -- From this length on, the stored numbers of used slots must be up to date. Those of
  -- unchanged logs are not, so the general step rewrites the whole state.
  ok = #state < 2048
end
if ok and counts then
  if state then
    call('SET', key, state, 'PX', math.ceil(life / 1000) + 1)
  else
    if data == '' then
      if head ~= '' then call('SETRANGE', key, head_from, head) end
    elseif head == '' then
      call('SETRANGE', key, data_from, data)
    else
      call('SETRANGE', key, head_from, head .. string.sub(s, head_to + 1, data_from) .. data)
    end
    if writes then
      for j = 1, #writes, 2 do call('SETRANGE', key, writes[j], writes[j + 1]) end
    end
    if rewrite then call('PEXPIRE', key, math.ceil(life / 1000) + 1) end
  end
end
if ok and counts and only_logs and not denied then
  if limits == 3 then
    reply = pack('>I1I7I4I4I4I4I4I4I4I4I4', 3, now, after[1], after[4], after[5], after[6], after[9],
      after[10], after[11],
      after[14], after[15])
  else
    reply = pack('>I1I7', 3, now)
    for j = 1, k, 5 do reply = reply .. pack('>I4I4I4', after[j], after[j + 3], after[j + 4]) end
  end
elseif ok then
  local answer = before
  if counts then answer = after end
  local verdict = 1
  if denied then verdict = 0 end
  reply = pack('>I1I7' .. string.rep('I4I7I7I4I4', limits), verdict, now, _G.unpack(answer, 1, k))
end
