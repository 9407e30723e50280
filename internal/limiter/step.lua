-- One atomic sliding-window step over every limit of one subject.
--
-- A head chunk runs before this one and must set the locals
--   key     the subject's state key, one of KEYS
--   prog    the compiled limits, bytes as Program lays them out (program.go)
--   cost    how much to take, a whole number 0 to 1e9; 0 looks at a cost of 1 and takes nothing; below 0 gives -cost back
--   refund  when cost is below 0: the time at which it was taken, microseconds since 1970; when cost is above 0: -1 when some of it may be given
--           back, for which a token bucket keeps notes, any other number when not
-- It runs in a block of its own; a tail chunk runs after it and returns `reply`, a string
-- of big-endian integers:
--   1 byte    1 when allowed, 0 when denied, 2 when the cost is above a limit (only the time follows then), 3 when allowed and nothing but the
--             time is needed to tell a limit's reset, so that reset and retry-after are left out: by logs and counters
--   7 bytes   the server's time, microseconds since 1970
--   per limit 4 bytes remaining, 7 bytes reset, 7 bytes retry-after (microseconds from now), and from what the reader
--             computes when remaining rises: of a log 8 bytes microseconds from now; of a counter 4 bytes previous
--             count, 4 bytes count; of a token bucket 4 bytes parts of a microsecond, 4 bytes 0; else 8 bytes 0
--   when cost is below 0: 4 bytes how many calls some limit may still hold and did not give back, the most over all
--             limits
--
-- The state is one string, every integer big-endian:
--   the signature of the program, whose sections follow in its order; when it differs from that of prog, `rebuild` carries the history over
--   per log: 7 bytes time of the newest slot at the last rewrite, 7 bytes clock offset, 4 bytes capacity,
--            4 bytes how many slots a log of attempts keeps, or of any other log how much older than the newest slot the oldest was at the last
-- rewrite (us;
--            with slots of more than 4 bytes 65536 us), 4 bytes used slots, 4 bytes calls of the newest slot
--   per other section 15 bytes: 7 bytes start of the window, 4 bytes previous count, 4 bytes count;
--            of a token bucket 7 bytes when it is full again, 4 bytes parts of a microsecond more, 4 bytes parts in a microsecond
--   then the slots of each log
-- While there are notes for refunds the signature ends with one more entry, NOTES; the
-- numbers of that section are 14 bytes 0, 4 bytes two for each note, 4 bytes 0, 4 bytes
-- the same, 4 bytes 0; and behind all slots follow the notes, 12 bytes each, by section:
-- 1 byte number of the section (from 1), 7 and 4 bytes. Of a log they are deficits
-- (refund.go): the stamp, the calls; by stamp. Of a token bucket (valleys.go) the first
-- is the time since when there are valleys, and 1 when the bucket was full then; each
-- valley is two: its time, its parts; its microseconds, 1 when it is merged. The shorter
-- ways leave such a state to this one. A slot is the low bits of the time of its latest
-- call; its top bit is set, so that a zero slot is a free one. Slots are in time order. A
-- state longer than `window_bytes` keeps its numbers of used slots up to date and is read
-- in pieces; a shorter one is read whole, a log's first free slot is found by its zero
-- bytes, and to admit a call writes nothing but the slot.
--
-- This is the general way, for every case; refund.lua and store.lua are its other parts.
-- single.lua, several.lua, common.lua, logs.lua and counts.lua are shorter ones. Numbers
-- are doubles: every integer stays below 2^53, products that may not are made by
-- `muldiv`. The model (model.go) is the same step in Go.

local byte, sub, rep, floor, ceil = string.byte, string.sub, string.rep, math.floor, math.ceil
local window_bytes = 2048
local LOG, ATTEMPTS, COUNTER, BUCKET, FIXED = 1, 2, 3, 4, 5

local limits, _, _, siglen = byte(prog, 1, 4)
siglen = 2 + 12 * siglen
local sig = sub(prog, 3, 2 + siglen)
local big = #s == window_bytes
-- The last entry of a state's signature when notes for refunds follow the slots: of a log
-- that no program can have, for older releases, which carry over the other logs and leave
-- this one out.
local NOTES = '\1\0\0\0\1\6\0\0\0\0\0\1'
local stored = byte(s, 2) or 0 -- sections of the state
local has_notes = stored > 1 and sub(s, 12 * stored - 9, 12 * stored + 2) == NOTES
if has_notes then stored = stored - 1 end
local same_sections = byte(s, 1) == byte(sig, 1) and sub(s, 3, 12 * stored + 2) == sub(sig, 3)
local take = cost
if cost <= 0 then take = 1 end

-- floor(a * b / d) and the remainder, for a < 2^30, b and d < 2^45.
local function muldiv(a, b, d)
  local p = a * b
  if p < 9007199254740992 then
    local q = floor(p / d)
    local r = p - q * d
    if r < 0 then return q - 1, r + d end
    if r >= d then return q + 1, r - d end
    return q, r
  end
  -- Long division, seven bits of `a` at a time: the remainder stays below d < 2^45, so
  -- remainder * 2^7 + 127 * b stays below 2^53.
  local quotient, remainder = 0, 0
  for shift = 28, 0, -7 do
    local x = remainder * 128 + floor(a / 2 ^ shift) % 128 * b
    local q = floor(x / d)
    remainder = x - q * d
    if remainder < 0 then
      q, remainder = q - 1, remainder + d
    elseif remainder >= d then
      q, remainder = q + 1, remainder - d
    end
    quotient = quotient * 128 + q
  end
  return quotient, remainder
end

-- The sections that a signature lists.
local function sections_of(signature, count)
  local sections = {}
  for i = 1, count do
    local kind, group, width, span = unpack('>I1I4I1I6', signature, 3 + 12 * (i - 1))
    sections[i] = {kind = kind, group = group, width = width, span = span, calendar = 0, requests = 0, deficits = {}, valleys = {}}
    if kind == FIXED then sections[i].calendar = group end
    if kind <= ATTEMPTS then
      sections[i].modulus = 2 ^ (8 * width - 1)
      sections[i].format = '>I' .. width
    end
  end
  return sections
end

-- Shift i of a calendar section's zone: from when on, and how far its clocks are ahead of
-- UTC.
local function shift(section, i)
  local from, seconds = unpack('>I7I3', prog, section.shifts_at + 10 * (i - 1))
  return from, (seconds - 8388608) * 1000000
end

-- The first instant, from shift `i` on, at which the clocks of a section's zone show at
-- least a local time.
local function reached(section, i, moment)
  while true do
    local from, offset = shift(section, i)
    local instant = moment - offset
    if i > 1 and instant < from then instant = from end
    if i == section.shifts or instant < (shift(section, i + 1)) then return instant end
    i = i + 1
  end
end

-- The window of a counter or fixed window that holds now.
local function period(section)
  local span = section.span
  if section.calendar == 0 then
    local start = now - now % span
    return start, start + span
  end
  local current = section.shifts
  while current > 1 and now < (shift(section, current)) do current = current - 1 end
  local _, offset = shift(section, current)
  local day = 86400000000
  local moment = now + offset
  local from, to
  if section.calendar <= 2 then
    local unit = section.calendar == 1 and 60000000 or 3600000000
    from = moment - moment % unit - offset
    return from, from + unit
  elseif section.calendar == 3 then
    from = moment - moment % day
    to = from + day
  else
    -- Howard Hinnant's civil_from_days: years begin in March.
    local days = floor(moment / day)
    local doe = (days + 719468) % 146097
    local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
    local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
    local month = floor((5 * doy + 2) / 153)
    local begins = floor((153 * month + 2) / 5)
    local length = floor((153 * (month + 1) + 2) / 5) - begins
    if month == 11 then
      local year = yoe + 1
      length = (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) and 29 or 28
    end
    from = (days - doy + begins) * day
    to = from + length * day
  end
  return reached(section, 1, from), reached(section, current, to)
end

-- Slot i of a log, 0 the oldest, as a time on the log's clock.
local function slot(log, i)
  if log.times then return log.times[i + 1] end
  if i >= log.fresh then return log.fresh_time end
  local p = log.slots_at + i * log.width
  local low
  if log.bytes then
    low = unpack(log.format, log.bytes, i * log.width + 1)
  elseif big then
    low = unpack(log.format, call('GETRANGE', key, p, p + log.width - 1))
  else
    low = unpack(log.format, s, p + 1)
  end
  local delta = (low - log.rewritten) % log.modulus
  if delta >= log.modulus / 2 then delta = delta - log.modulus end
  local time = log.rewritten + delta
  if log.newest and time > log.newest then return log.newest end -- slots out of order are nobody's: they must not deny for longer than a window
  return time
end

-- The first slot of a log that is later than a time; the number of its slots if there is
-- none.
local function first_after(log, time)
  local lo, hi = log.base, log.used
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if slot(log, mid) > time then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- The calls that deficits later than a time are short of.
local function missing_after(log, time)
  local calls = 0
  for i = 1, #log.deficits do
    if log.deficits[i].at > time then calls = calls + log.deficits[i].calls end
  end
  return calls
end

-- The calls in a log's slots later than a time.
local function calls_after(log, time)
  local live = log.used - first_after(log, time)
  if live == 0 then return 0 end
  return log.fill + (live - 1) * log.group - missing_after(log, time)
end

-- The calls that slot i of a log stands for. The first slot with a stamp bears its
-- deficit.
local function calls_in(log, i)
  if i == log.used - 1 then return log.fill end
  local at = slot(log, i)
  if #log.deficits == 0 or (i > log.base and slot(log, i - 1) == at) then return log.group end
  return log.group - (missing_after(log, at - 1) - missing_after(log, at))
end

-- The bytes of a slot.
local function encode_slot(log, time) return pack(log.format, time % log.modulus + log.modulus) end

-- Reads deficits and valleys. Deficits that cannot be are left out: without them too much
-- is counted, never too little.
local function decode_notes(sections, bytes)
  for i = 1, #bytes - 11, 12 do
    local number, time, calls = unpack('>I1I7I4', bytes, i)
    local section = sections[number]
    if section and section.kind == LOG and section.used > 0 then
      local before = section.deficits[#section.deficits]
      if calls > 0 and calls < section.group and time < slot(section, section.used - 1)
        and time == slot(section, first_after(section, time - 1)) and (not before or time > before.at) then
        section.deficits[#section.deficits + 1] = {at = time, calls = calls}
      end
    elseif section and section.kind == BUCKET and not section.since then
      section.since, section.full = time, calls == 1
    elseif section and section.kind == BUCKET and not section.half then
      section.half = {at = time, part = calls}
    elseif section and section.kind == BUCKET then
      section.half.whole, section.half.merged = time, calls == 1
      section.valleys[#section.valleys + 1], section.half = section.half, nil
    end
  end
end

-- Reads the state's sections. Returns nil when it is no state of ours.
local function decode(sections)
  local at = 2 + 12 * #sections
  if has_notes then at = at + 12 end
  for i = 1, #sections do
    local section = sections[i]
    section.at = at
    if section.kind <= ATTEMPTS then
      if #s < at + 30 then return nil end
      section.rewritten, section.offset, section.capacity, section.keep, section.used, section.fill = unpack('>I7I7I4I4I4I4', s, at + 1)
      at = at + 30
    else
      if #s < at + 15 then return nil end
      section.start, section.prev, section.cur = unpack('>I7I4I4', s, at + 1)
      at = at + 15
    end
  end
  local notes_at, notes_length = 0, 0
  if has_notes then
    if #s < at + 30 then return nil end
    notes_length = 6 * unpack('>I4', s, at + 15)
    at = at + 30
  end
  for i = 1, #sections do
    local log = sections[i]
    if log.kind <= ATTEMPTS then
      log.slots_at = at
      at = at + log.capacity * log.width
      if not big then
        local free = string.find(s, rep('\0', log.width), log.slots_at + 1, true)
        log.used = free and floor((free - 2 - log.slots_at + log.width) / log.width) or log.capacity
        if log.used > log.capacity then log.used = log.capacity end
      end
      if log.used > log.capacity or log.group < 1 or log.fill > log.group or log.offset > 2 ^ 47 or log.rewritten - now > 2 ^ 47 then return nil end
      log.fresh, log.base = log.used, 0
      if log.kind == ATTEMPTS and log.keep > 0 and log.used > log.keep then log.base = log.used - log.keep end
      if log.group == 1 then log.fill = 1 end -- not kept up to date
    end
  end
  notes_at, at = at, at + notes_length
  if (not big and #s ~= at) or (big and call('STRLEN', key) ~= at) then return nil end
  if notes_length > 0 and big then
    decode_notes(sections, call('GETRANGE', key, notes_at, at - 1))
  elseif notes_length > 0 then
    decode_notes(sections, sub(s, notes_at + 1, at))
  end
  return sections
end

-- A section that never counted.
local function blank(section)
  if section.kind <= ATTEMPTS then
    section.rewritten, section.offset, section.capacity, section.used, section.fill, section.keep = now, 0, 0, 0, 0, 0
    section.fresh, section.base = 0, 0 -- the first slot that is not stored yet, the first slot that counts
  else
    section.start, section.prev, section.cur = 0, 0, 0
    if section.kind ~= BUCKET then section.start = period(section) end
  end
end

-- A bucket's debt: how long until it is full, in whole microseconds and parts.
local function debt(bucket)
  if bucket.start < now then return 0, 0 end
  return bucket.start - now, bucket.prev
end

-- A debt with a cost added.
local function debt_after(bucket, added_cost)
  local whole, part = debt(bucket)
  local added, rest = muldiv(added_cost, bucket.span, bucket.requests)
  whole, part = whole + added, part + rest
  if part >= bucket.requests then return whole + 1, part - bucket.requests end
  return whole, part
end

-- How many calls a debt stands for, rounded up.
local function owed_calls(whole, part, requests, span)
  local calls, rest = muldiv(requests, whole, span)
  return calls + ceil((rest + part) / span)
end

-- A counter's weighted estimate, rounded up.
local function estimate(counter)
  local weighted, rest = muldiv(counter.prev, counter.span - (now - counter.start), counter.span)
  if rest > 0 then weighted = weighted + 1 end
  return counter.cur + weighted
end

-- Brings a section to the time now. Returns whether that did more than let time pass, and
-- whether a window began.
local function settle(section, requests)
  if section.kind <= ATTEMPTS then
    if section.used == 0 then return false, false end
    local newest = slot(section, section.used - 1)
    section.newest = newest
    if newest <= now + section.offset then return false, false end
    section.offset = newest - now
    return true, false
  elseif section.kind == BUCKET then
    local whole, part = debt(section)
    if whole == 0 and part == 0 then return false, false end -- what is stored stands: the clock may step back
    local moved = false
    if whole > section.span or (whole == section.span and part > 0) then
      whole, part, moved = section.span, 0, true
    end
    if section.cur ~= requests then
      local owed = owed_calls(whole, part, math.max(1, section.cur), section.span)
      if owed > requests then owed = requests end
      whole, part = muldiv(owed, section.span, requests)
      moved = true
    end
    section.start, section.prev, section.cur = now + whole, part, requests
    if moved then section.since, section.full, section.valleys = nil, false, {} end
    return moved, false
  end
  local current, ends = period(section)
  section.ends = ends
  local before = section.start
  section.start = current
  if current == before then return false, false end
  if current < before then return true, true end
  if section.kind == COUNTER and current == before + section.span then
    section.prev, section.cur = section.cur, 0
  else
    section.prev, section.cur = 0, 0
  end
  return false, true
end

-- Adds a cost to a log whose slots are listed in `times`.
local function push(log, time, count)
  local times = log.times
  if log.used > 0 and log.fill < log.group then
    local added = math.min(count, log.group - log.fill)
    times[log.used] = time
    log.fill = log.fill + added
    count = count - added
  end
  while count > 0 do
    log.used = log.used + 1
    times[log.used] = time
    log.fill = math.min(count, log.group)
    count = count - log.fill
  end
end

-- Carries a state with another signature over into sections: carryover.go says by what
-- rules. Returns whether there was a state of ours.
local function rebuild(sections)
  local count = stored
  if byte(s, 1) ~= byte(sig, 1) or count < 1 or count > 8 or #s < 2 + 12 * count then return false end
  local old = sections_of(s, count)
  for i = 1, count do
    local o = old[i]
    if o.kind < LOG or o.kind > FIXED or (o.kind <= ATTEMPTS and (o.width < 4 or o.width > 6)) or (o.calendar == 0 and o.span < 1) then return false end
  end
  if not decode(old) then return false end
  local largest = 0
  local logs = {}
  for i = 1, count do
    local o = old[i]
    local calls = 0
    if o.calendar == 0 then settle(o, o.cur) end
    if o.kind == COUNTER then
      calls = estimate(o)
    elseif o.kind == FIXED then
      calls = o.cur
    elseif o.kind == BUCKET then
      local whole, part = debt(o)
      calls = owed_calls(whole, part, math.max(1, o.cur), o.span)
    elseif not logs[o.kind] or o.span > logs[o.kind].span then
      logs[o.kind] = o
    end
    if calls > largest then largest = calls end
  end
  for i = 1, #sections do
    local section = sections[i]
    local entry = sub(sig, 3 + 12 * (i - 1), 14 + 12 * (i - 1))
    local same
    for j = count, 1, -1 do
      if sub(s, 3 + 12 * (j - 1), 14 + 12 * (j - 1)) == entry then same = old[j] end
    end
    local source = logs[LOG] or logs[ATTEMPTS]
    if section.kind == ATTEMPTS then source = logs[ATTEMPTS] or logs[LOG] end
    blank(section)
    if section.kind <= ATTEMPTS then
      section.times, section.keep = {}, same and same.keep or 0
      local from = same or source
      if from then
        section.offset = from.offset
        local after = now + from.offset - math.min(section.span, from.span)
        if same then
          for k = from.base, from.used - 1 do push(section, slot(from, k), k == from.used - 1 and from.fill or from.group) end
          section.deficits = from.deficits
        else
          -- A slot may have stood for many calls, and each may need one of its own now:
          -- that is bounded, the oldest go.
          local most = math.max(section.requests, 10000 * section.group)
          local oldest, first, total = first_after(from, after), from.used, 0
          while first > oldest and total < most do
            first = first - 1
            total = total + calls_in(from, first)
          end
          for k = first, from.used - 1 do
            local calls = calls_in(from, k)
            if k == first and total > most then calls = calls - (total - most) end
            push(section, slot(from, k), calls)
          end
        end
      else
        push(section, now, math.min(largest, section.requests))
      end
      section.fresh = section.used
    elseif same then
      section.start, section.prev, section.cur = same.start, same.prev, same.cur
      section.since, section.full, section.valleys = same.since, same.full, same.valleys
    else
      local calls = largest
      if source then
        local reach = section.span - 1
        if section.kind == FIXED then reach = now - section.start end
        calls = calls_after(source, now + source.offset - math.min(reach + 1, source.span))
      end
      if section.kind == BUCKET and calls == 0 then
        section.cur = section.requests
      elseif section.kind == BUCKET then
        local whole, part = muldiv(math.min(calls, section.requests), section.span, section.requests)
        section.start, section.prev, section.cur = now + whole, part, section.requests
      else
        section.cur = calls
      end
    end
  end
  return true
end

-- The program's limits, each with its section; a section's requests are its largest
-- limit's.
local sections = sections_of(sig, byte(sig, 2))
for i = 1, #sections do -- a damaged program must not keep the server busy
  local section = sections[i]
  if section.kind < LOG or section.kind > FIXED or (section.calendar == 0 and section.span < 1)
    or (section.kind <= ATTEMPTS and (section.group < 1 or section.width < 4 or section.width > 6)) then
    error('not a program')
  end
end
local list = {}
do
  local at = 3 + siglen
  for i = 1, limits do
    local n, number, window = unpack('>I4I1I6', prog, at)
    local section = sections[number]
    if take > n then return pack('>I1I7', 2, now) end
    if n > section.requests then section.requests = n end
    list[i] = {requests = n, section = section, window = window}
    at = at + 14
  end
  for i = 1, #sections do
    if sections[i].calendar > 0 then
      at = at + 1 + byte(prog, at)
      sections[i].shifts, sections[i].shifts_at = byte(prog, at), at + 1
      at = at + 1 + 10 * sections[i].shifts
    end
  end
end

local matches = same_sections and decode(sections) ~= nil
local must_write, due = false, not matches
if not matches then
  must_write = #s > 0 and not same_sections and rebuild(sections)
  if not must_write then
    for i = 1, #sections do blank(sections[i]) end
  end
  big = false
end
for i = 1, #sections do
  local moved, began = settle(sections[i], sections[i].requests)
  must_write = must_write or moved
  due = due or began
end

-- The slot of a log that has to leave the window for a cost to pass under a limit; below
-- `base` when it passes.
local function deciding_slot(log, n, passing)
  if #log.deficits == 0 then
    local spare = n - passing - log.fill
    return log.used - 1 - (spare >= 0 and floor(spare / log.group) + 1 or 0)
  end
  if log.fill + (log.used - 1) * log.group - missing_after(log, 0) <= n - passing then return -1 end
  local lo, hi = log.base, log.used - 1
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    local behind = log.fill + (log.used - 2 - mid) * log.group -- in the slots after it, but for deficits
    if behind - missing_after(log, slot(log, mid)) <= n - passing then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- What is left of a limit, when it is empty and when the cost passes, in microseconds
-- from now, and what comes next.
local function usage(limit)
  local section, n = limit.section, limit.requests
  local left, reset, retry, next, second = n, 0, 0, 0, 0
  if section.kind <= ATTEMPTS then
    local used = section.used
    if used > 0 then
      local at, window = now + section.offset, limit.window
      local deciding = deciding_slot(section, n, take)
      if deciding >= section.base then retry = window - (at - slot(section, deciding)) end
      left = n - calls_after(section, at - window)
      reset = window - (at - slot(section, used - 1))
      local more = left > 0 and left + 1 or 1
      if more <= n then
        local until_more = window - (at - slot(section, math.max(0, deciding_slot(section, n, more))))
        next, second = floor(until_more / 4294967296), until_more % 4294967296
      end
    end
  elseif section.kind == COUNTER then
    local span, elapsed = section.span, now - section.start
    left = n - estimate(section)
    if take > left then
      if section.cur + take <= n then
        retry = span - muldiv(n - section.cur - take, span, section.prev) - elapsed
      else
        retry = 2 * span - muldiv(n - take, span, section.cur) - elapsed
      end
    end
    if section.cur > 0 then reset = 2 * span - elapsed elseif section.prev > 0 then reset = span - elapsed end
    next, second = section.prev, section.cur
  elseif section.kind == BUCKET then
    local span = section.span
    local whole, part = debt(section)
    local rest
    left, rest = muldiv(n, span - whole, span)
    if rest < part then left = left - ceil((part - rest) / span) end
    reset, next = part > 0 and whole + 1 or whole, part
    whole, part = debt_after(section, take)
    retry = whole - span
    if part > 0 then retry = retry + 1 end
  else
    left = n - section.cur
    if section.cur > 0 then reset = section.ends - now end
    if take > left then retry = section.ends - now end
  end
  return left > 0 and left or 0, reset > 0 and reset or 0, retry > 0 and retry or 0, next, second
end

-- Compares two debts of whole microseconds and parts: whether the first is less.
local function owes_less(whole, part, other_whole, other_part)
  return whole < other_whole or (whole == other_whole and part < other_part)
end

-- Remembers a bucket's debt before a call; valleys.go says what for.
local function note_valley(bucket)
  local whole, part = debt(bucket)
  local valleys = bucket.valleys
  local latest = valleys[#valleys]
  latest = latest and latest.at or bucket.since
  if not bucket.since or whole + part == 0 or now < latest then
    bucket.since, bucket.full, bucket.valleys = nil, false, {}
    if refund == -1 and #sections < 8 then bucket.since, bucket.full = now, whole + part == 0 end
    return
  end
  while #valleys > 0 and not owes_less(valleys[#valleys].whole, valleys[#valleys].part, whole, part) do
    valleys[#valleys] = nil
  end
  valleys[#valleys + 1] = {at = now, whole = whole, part = part}
  if #valleys > 16 then
    local near = 1
    for i = 2, 16 do
      if valleys[i + 1].whole - valleys[i].whole < valleys[near + 1].whole - valleys[near].whole then near = i end
    end
    valleys[near].at, valleys[near].merged = valleys[near + 1].at, true
    table.remove(valleys, near + 1)
  end
end

-- Records `take` in a section.
local function record(section)
  if section.kind == BUCKET then
    note_valley(section)
    local whole, part = debt_after(section, take)
    section.start, section.prev, section.cur = now + whole, part, section.requests
    due = true -- its time to live moves with every call
  elseif section.kind > ATTEMPTS then
    section.cur = section.cur + take
  else
    local at, group = now + section.offset, section.group
    local begin = section.used
    if begin == 0 then due = true end -- what the numbers say of the oldest slot has to hold for this one
    if begin > 0 and at - slot(section, begin - 1) >= section.span then
      begin, section.used, section.base, section.keep, section.times, due = 0, 0, 0, 0, nil, true
      section.deficits = {}
    end
    local latest = section.deficits[#section.deficits]
    if latest and at - latest.at >= section.span then due = true end -- a state without deficits takes the shorter ways again
    if section.times then
      push(section, at, take)
      section.fresh = section.used
    else
      local rest = take
      if begin > 0 and section.fill < group then
        begin = begin - 1
        rest = take - (group - section.fill)
      end
      if rest <= 0 then
        section.fill = section.fill + take
      else
        local more = ceil(rest / group)
        section.fill = rest - (more - 1) * group
        section.used = section.used + more
      end
      if begin < section.fresh then section.fresh = begin end
      section.fresh_time = at
    end
    if section.kind == ATTEMPTS then
      local keep = ceil(section.requests / group) + 1
      if keep > section.keep then
        section.keep = keep
        if section.base > 0 then due = true end -- else a later call would count again what is before the base
      end
      section.base = math.max(section.base, section.used - section.keep)
    end
    if section.used > section.capacity or math.abs(at - section.rewritten) >= section.span then due = true end
  end
  section.recorded = true
end

