-- Part of the general step: carries over the counts of a state with another signature,
-- after an edit of the limits. carryover.go has the rules. readstate.lua describes the
-- input and output of the step.
--
-- Defines rebuild(sections), which fills the sections from the state, and returns whether
-- the state was valid.

-- Adds count calls to a log whose slots are in log.times.
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

-- Returns the old section whose state section i keeps, preferably the old section i. A
-- section that is not a log keeps its state in another mode too.
local function at_place(old, i, section)
  local found
  for j = #old, 0, -1 do
    local o = old[j == 0 and i or j]
    if o and o.kind == section.kind and o.group == section.group and o.width == section.width
      and o.span == section.span then
      if o.shadow == section.shadow then
        found = o
      elseif section.kind > ATTEMPTS and (not found or found.shadow ~= section.shadow) then
        found = o
      end
    end
  end
  return found
end

-- Returns slots of an old log, oldest first, and the number of calls in them. Their age
-- is below younger and, unless least is 0, at least least (us). If they have more than
-- most calls, returns the latest ones.
local function entries_of(log, younger, least, most)
  local clock = now + log.offset
  local finish = least > 0 and first_after(log, clock - least) or log.used
  local oldest, first, total = first_after(log, clock - younger), finish, 0
  while first > oldest and total < most do
    first = first - 1
    total = total + calls_in(log, first)
  end
  local entries = {}
  for k = first, finish - 1 do
    local calls = calls_in(log, k)
    if k == first and total > most then calls = calls - (total - most) end
    entries[#entries + 1] = {at = slot(log, k), calls = calls}
  end
  return entries, math.min(total, most)
end

-- Fills sections from a state with another signature. Returns false if the state is not
-- valid.
local function rebuild(sections)
  local count = stored
  if byte(s, 1) ~= byte(sig, 1) or count < 1 or count > 8 or #s < 2 + 12 * count then return false end
  local old = sections_of(s, count)
  for i = 1, count do
    local o = old[i]
    if o.kind < LOG or o.kind > FIXED or (o.kind <= ATTEMPTS and (o.width < 4 or o.width > 6))
      or (o.calendar == 0 and o.span < 1) then
      return false
    end
  end
  if not decode(old) then return false end
  local largest = 0
  local logs, shadows = {}, {} -- by kind: the log with the longest window, enforced and in shadow mode
  for i = 1, count do
    local o = old[i]
    local calls = 0
    if o.calendar == 0 then advance(o, o.cur) end
    if o.kind == COUNTER then
      calls = estimate(o)
    elseif o.kind == FIXED then
      calls = o.cur
    elseif o.kind == BUCKET then
      local whole, part = debt(o)
      calls = owed_calls(whole, part, math.max(1, o.cur), o.span)
    else
      local longest = o.shadow and shadows or logs
      if not longest[o.kind] or o.span > longest[o.kind].span then longest[o.kind] = o end
    end
    if calls > largest then largest = calls end
  end
  for i = 1, #sections do
    local section = sections[i]
    local same = at_place(old, i, section)
    local first, second = LOG, ATTEMPTS
    if section.kind == ATTEMPTS then first, second = ATTEMPTS, LOG end
    local source, older = logs[first] or logs[second], shadows[first] or shadows[second]
    if not source then
      source = older
      older = nil
    end
    blank(section)
    if section.kind <= ATTEMPTS then
      section.times, section.keep = {}, same and same.keep or 0
      local from = same or source
      if from then
        section.offset = from.offset
        if same then
          for k = from.base, from.used - 1 do
            push(section, slot(from, k), k == from.used - 1 and from.fill or from.group)
          end
          section.deficits = from.deficits
        else
          -- A slot may stand for many calls that each need a slot now. Their number is
          -- bounded: the oldest are dropped.
          local most = math.max(section.requests, 10000 * section.group)
          local entries, total = entries_of(from, math.min(section.span, from.span), 0, most)
          if older and older.span > from.span and section.span > from.span and total < most then
            local before = entries_of(older, math.min(section.span, older.span), from.span, most - total)
            local ahead = from.offset - older.offset
            for k = 1, #before do push(section, before[k].at + ahead, before[k].calls) end
          end
          for k = 1, #entries do push(section, entries[k].at, entries[k].calls) end
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

