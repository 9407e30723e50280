-- Part of the general step: reads the program, brings the state's sections up to date,
-- and defines the functions that evaluate a limit and record a cost. readstate.lua
-- describes the input and output of the step.
--
-- Sets these locals:
-- sections    the program's sections, with the state's counts
-- list        the limits, each with requests, section and window (us)
-- must_write  whether the state must be written even if no cost is recorded
-- due         whether the whole state must be rewritten if a cost is recorded
--
-- Ends the step with reply 2 if the cost is above an enforced limit.

-- The program's sections. A section's requests are those of its largest limit.
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
    local section = sections[number % 64] -- without the marks of 64 and 128 (program.go)
    section.spared = number % 128 >= 64
    if take > n and not section.shadow then return pack('>I1I7', 2, now) end
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
  local moved, began = advance(sections[i], sections[i].requests)
  must_write = must_write or moved
  due = due or began
end

-- Returns the index of the slot that must leave the window of a log so that the cost
-- passing passes the limit n. The index is below log.base if the cost passes now.
local function deciding_slot(log, n, passing)
  if #log.deficits == 0 then
    local spare = n - passing - log.fill
    return log.used - 1 - (spare >= 0 and floor(spare / log.group) + 1 or 0)
  end
  if log.fill + (log.used - 1) * log.group - missing_after(log, 0) <= n - passing then return -1 end
  local lo, hi = log.base, log.used - 1
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    local behind = log.fill + (log.used - 2 - mid) * log.group -- calls in later slots, before deficits
    if behind - missing_after(log, slot(log, mid)) <= n - passing then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- Returns the remaining cost of a limit, reset and retry-after (us), and the two numbers
-- from which the reader computes when remaining rises.
local function usage(limit)
  local section, n = limit.section, limit.requests
  local take = take > n and n or take
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

-- Returns whether the first of two debts (microseconds, parts) is less.
local function owes_less(whole, part, other_whole, other_part)
  return whole < other_whole or (whole == other_whole and part < other_part)
end

-- Records a bucket's debt before a call. bucket.go explains valleys.
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
      if valleys[i + 1].whole - valleys[i].whole < valleys[near + 1].whole - valleys[near].whole then
        near = i
      end
    end
    valleys[near].at, valleys[near].merged = valleys[near + 1].at, true
    table.remove(valleys, near + 1)
  end
end

-- Records the cost take in a section.
local function record(section)
  if section.kind == BUCKET then
    note_valley(section)
    local whole, part = debt_after(section, take)
    section.start, section.prev, section.cur = now + whole, part, section.requests
    due = true -- its expiry moves with every call
  elseif section.kind > ATTEMPTS then
    section.cur = section.cur + take
  else
    local at, group = now + section.offset, section.group
    local begin = section.used
    if begin == 0 then due = true end -- the stored numbers must have this slot as the oldest
    if begin > 0 and at - slot(section, begin - 1) >= section.span then
      begin, section.used, section.base, section.keep, section.times, due = 0, 0, 0, 0, nil, true
      section.deficits = {}
    end
    local latest = section.deficits[#section.deficits]
    -- A state without deficits can use the shortcuts again.
    if latest and at - latest.at >= section.span then due = true end
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
        if section.base > 0 then due = true end -- otherwise later calls count slots before the base
      end
      section.base = math.max(section.base, section.used - section.keep)
    end
    if section.used > section.capacity or math.abs(at - section.rewritten) >= section.span then due = true end
  end
  section.recorded = true
end

