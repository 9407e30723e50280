-- One atomic sliding-window step over every limit of one subject.
--
-- A head chunk runs before this one and must set the locals
--   key     the subject's state key, one of KEYS
--   prog    the compiled limits, bytes as Program lays them out (program.go)
--   cost    how much to take, a whole number 0 to 1e9; 0 looks at a cost of 1 and takes nothing; below 0 gives -cost back
--   refund  when cost is below 0: the time at which it was taken, microseconds since 1970
-- It runs in a block of its own; a tail chunk runs after it and returns `reply`, a string of big-endian integers:
--   1 byte    1 when allowed, 0 when denied, 2 when the cost is above a limit (only the time follows then), 3 when allowed and nothing but the
--             time is needed to tell a limit's reset, so that only remaining follows: by logs, counters and fixed windows without a calendar
--   7 bytes   the server's time, microseconds since 1970
--   per limit 4 bytes remaining, 7 bytes reset, 7 bytes retry-after (microseconds from now)
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
-- A slot is the low bits of the time of its latest call; its top bit is set, so that a zero slot is a free one. Slots are in time order. A state
-- longer than `window_bytes` keeps its numbers of used slots up to date and is read in pieces; a shorter one is read whole, a log's first free slot
-- is found by its zero bytes, and to admit a call writes nothing but the slot.
--
-- This is the general way, for every case; single.lua, several.lua, common.lua, logs.lua and counts.lua are shorter ones.
-- Numbers are doubles: every integer stays below 2^53, products that may not are made by `muldiv`. The model (model.go) is the same step in Go.

local byte, sub, rep, floor, ceil = string.byte, string.sub, string.rep, math.floor, math.ceil
local window_bytes = 2048
local LOG, ATTEMPTS, COUNTER, BUCKET, FIXED = 1, 2, 3, 4, 5

local limits, _, _, siglen = byte(prog, 1, 4)
siglen = 2 + 12 * siglen
local sig = sub(prog, 3, 2 + siglen)
local big = #s == window_bytes
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
  -- Long division, seven bits of `a` at a time: the remainder stays below d < 2^45, so remainder * 2^7 + 127 * b stays below 2^53.
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
local function sections_of(signature)
  local sections = {}
  for i = 1, byte(signature, 2) do
    local kind, group, width, span = unpack('>I1I4I1I6', signature, 3 + 12 * (i - 1))
    sections[i] = {kind = kind, group = group, width = width, span = span, calendar = 0, requests = 0}
    if kind == FIXED then sections[i].calendar = group end
    if kind <= ATTEMPTS then
      sections[i].modulus = 2 ^ (8 * width - 1)
      sections[i].format = '>I' .. width
    end
  end
  return sections
end

-- Shift i of a calendar section's zone: from when on, and how far its clocks are ahead of UTC.
local function shift(section, i)
  local from, seconds = unpack('>I7I3', prog, section.shifts_at + 10 * (i - 1))
  return from, (seconds - 8388608) * 1000000
end

-- The first instant, from shift `i` on, at which the clocks of a section's zone show at least a local time.
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
  if big then
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

-- The first slot of a log that is later than a time; the number of its slots if there is none.
local function first_after(log, time)
  local lo, hi = log.base, log.used
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if slot(log, mid) > time then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- The calls in a log's slots later than a time.
local function calls_after(log, time)
  local live = log.used - first_after(log, time)
  if live == 0 then return 0 end
  return log.fill + (live - 1) * log.group
end

-- The bytes of a slot.
local function encode_slot(log, time) return pack(log.format, time % log.modulus + log.modulus) end

-- Reads the state's sections. Returns nil when it is no state of ours.
local function decode(sections)
  local at = 2 + 12 * #sections
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
  if (not big and #s ~= at) or (big and call('STRLEN', key) ~= at) then return nil end
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

-- Brings a section to the time now. Returns whether that did more than let time pass, and whether a window began.
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

-- Carries a state with another signature over into sections: carryover.go says by what rules. Returns whether there was a state of ours.
local function rebuild(sections)
  local count = byte(s, 2)
  if byte(s, 1) ~= byte(sig, 1) or not count or count < 1 or count > 8 or #s < 2 + 12 * count then return false end
  local old = sections_of(s)
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
        else
          -- A slot may have stood for many calls, and each may need one of its own now: that is bounded, the oldest go.
          local most = math.max(section.requests, 10000 * section.group)
          local oldest, first, total = first_after(from, after), from.used, 0
          while first > oldest and total < most do
            total = total + (first == from.used and from.fill or from.group)
            first = first - 1
          end
          for k = first, from.used - 1 do
            local calls = k == from.used - 1 and from.fill or from.group
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

-- The program's limits, each with its section; a section's requests are its largest limit's.
local sections = sections_of(sig)
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

local matches = #s > 0 and sub(s, 1, siglen) == sig and decode(sections) ~= nil
local must_write, due = false, not matches
if not matches then
  must_write = #s > 0 and sub(s, 1, siglen) ~= sig and rebuild(sections)
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

-- What is left of a limit, and when it is empty and when the cost passes, in microseconds from now.
local function usage(limit)
  local section, n = limit.section, limit.requests
  local left, reset, retry = n, 0, 0
  if section.kind <= ATTEMPTS then
    local used = section.used
    if used > 0 then
      local at, window = now + section.offset, limit.window
      local staying = 0
      local spare = n - take - section.fill
      if spare >= 0 then staying = floor(spare / section.group) + 1 end
      local deciding = used - staying - 1
      if deciding >= section.base then retry = window - (at - slot(section, deciding)) end
      left = n - calls_after(section, at - window)
      reset = window - (at - slot(section, used - 1))
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
  elseif section.kind == BUCKET then
    local span = section.span
    local whole, part = debt(section)
    local rest
    left, rest = muldiv(n, span - whole, span)
    if rest < part then left = left - ceil((part - rest) / span) end
    reset = part > 0 and whole + 1 or whole
    whole, part = debt_after(section, take)
    retry = whole - span
    if part > 0 then retry = retry + 1 end
  else
    left = n - section.cur
    if section.cur > 0 then reset = section.ends - now end
    if take > left then retry = section.ends - now end
  end
  return left > 0 and left or 0, reset > 0 and reset or 0, retry > 0 and retry or 0
end

-- Records `take` in a section.
local function record(section)
  if section.kind == BUCKET then
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
    end
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

-- Gives back -cost that was taken at the time `refund`.
local function give_back(section)
  local less = -cost
  if section.kind == LOG then
    local at = refund + section.offset
    if section.group > 1 then
      if section.used > 0 and slot(section, section.used - 1) == at then
        section.fill = section.fill - math.min(section.fill, less)
        if section.fill == 0 then
          section.used, section.fill = section.used - 1, section.group
        end
      end
    else
      local begin, finish = first_after(section, at - 1), first_after(section, at)
      if finish - less > begin then begin = finish - less end
      local times = {}
      for i = 0, section.used - 1 do
        if i < begin or i >= finish then times[#times + 1] = slot(section, i) end
      end
      section.times, section.used = times, #times
    end
    section.fresh, section.base = section.used, 0
  elseif section.kind == BUCKET then
    local whole, part = debt(section)
    local freed, rest = muldiv(less, section.span, section.requests)
    freed = freed - math.max(0, now - refund)
    if freed < 0 then return end -- what has come back by itself is not given back again
    whole, part = whole - freed, part - rest
    if part < 0 then whole, part = whole - 1, part + section.requests end
    if whole < 0 then whole, part = 0, 0 end
    section.start, section.prev, section.cur = now + whole, part, section.requests
  elseif section.kind ~= ATTEMPTS then
    if refund >= section.start then
      section.cur = section.cur - math.min(section.cur, less)
    elseif section.kind == COUNTER and refund >= section.start - section.span then
      section.prev = section.prev - math.min(section.prev, less)
    end
  end
end

if cost < 0 then
  for i = 1, #sections do give_back(sections[i]) end
  must_write = true
end

local allowed, attempts = true, false
local remaining, resets, retries = {}, {}, {}
local function evaluate()
  for i = 1, limits do
    remaining[i], resets[i], retries[i] = usage(list[i])
    if retries[i] > 0 then allowed = false end
  end
end
evaluate()

if cost > 0 then
  for i = 1, #sections do
    if allowed or sections[i].kind == ATTEMPTS then
      record(sections[i])
      attempts = true
    end
  end
  if attempts then
    local verdict = allowed
    evaluate()
    allowed = verdict
    if allowed then for i = 1, limits do retries[i] = 0 end end
  end
end

-- A log's part of a rewritten state: its numbers and its slots. Only what is out of every window as of the newest slot goes: the clock never gets
-- behind that, so it can never come back in.
local function encode_log(log)
  local last = now + log.offset
  local refunded = cost < 0 and log.kind == LOG -- perhaps the newest slot
  if log.used > 0 and not refunded then last = slot(log, log.used - 1) end
  local first = first_after(log, last - log.span)
  local count = log.used - first
  local most = ceil(log.requests / log.group)
  local room = floor(math.min(count * 1.5 + 8, most * 1.1 + 4))
  if room < count then room = count end
  local slots
  if log.times then
    local parts = {}
    for i = first, log.used - 1 do parts[#parts + 1] = encode_slot(log, log.times[i + 1]) end
    slots = table.concat(parts)
  else
    local old = math.max(math.min(log.fresh, log.used) - first, 0)
    local from, to = log.slots_at and log.slots_at + first * log.width, log.slots_at and log.slots_at + (first + old) * log.width
    if old == 0 then
      slots = ''
    elseif big then
      slots = call('GETRANGE', key, from, to - 1)
    else
      slots = sub(s, from + 1, to)
    end
    if count > old then slots = slots .. rep(encode_slot(log, log.fresh_time), count - old) end
  end
  local keep = log.keep
  if log.kind == LOG then
    keep = count > 0 and last - slot(log, first) or 0
    if log.width > 4 then keep = ceil(keep / 65536) end
  end
  return pack('>I7I7I4I4I4I4', last, log.offset, room, keep, count, log.fill), slots .. rep('\0', (room - count) * log.width)
end

if must_write or (attempts and due) then
  local life = 0
  local parts, slots = {sig}, {}
  for i = 1, #sections do
    local section = sections[i]
    local needed = 2 * section.span
    if section.kind <= ATTEMPTS then
      parts[#parts + 1], slots[#slots + 1] = encode_log(section)
    else
      parts[#parts + 1] = pack('>I7I4I4', section.start, section.prev, section.cur)
      if section.kind == COUNTER then
        needed = section.start + 2 * section.span - now
      elseif section.kind == FIXED then
        needed = section.ends - now
      end
    end
    if needed > life then life = needed end
  end
  call('SET', key, table.concat(parts) .. table.concat(slots), 'PX', ceil(life / 1000) + 1)
elseif attempts then
  for i = 1, #sections do
    local section = sections[i]
    if section.recorded and section.kind > ATTEMPTS then
      call('SETRANGE', key, section.at, pack('>I7I4I4', section.start, section.prev, section.cur))
    elseif section.recorded then
      if big or section.group > 1 or section.kind == ATTEMPTS then
        call('SETRANGE', key, section.at + 18, pack('>I4I4I4', section.keep, section.used, section.fill))
      end
      local slots = rep(encode_slot(section, section.fresh_time), section.used - section.fresh)
      if section.used < section.capacity then slots = slots .. rep('\0', section.width) end -- whatever is behind them, the next slot is free
      call('SETRANGE', key, section.slots_at + section.fresh * section.width, slots)
    end
  end
end

local pieces = {pack('>I1I7', allowed and 1 or 0, now)}
for i = 1, limits do pieces[i + 1] = pack('>I4I7I7', remaining[i], resets[i], retries[i]) end
reply = table.concat(pieces)
