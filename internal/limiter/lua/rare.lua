-- Part of the step: what few steps need. define_rare defines it when a step does.

define_rare = function()
  if list_entries then return end
  local LONGEST = {60000000, 3600000000, 90000000000, 2682000000000, 608400000000, 31626000000000}

  -- Returns start and end of the calendar period of a part that contains now. Local times
  -- are microseconds since 1970 on the clocks of the part's zone.
  period = function(part)
    -- Returns the start of shift i (from 1), and the zone's offset east of UTC from then on.
    local function shift(i)
      local from, seconds = unpack('>I7I3', part.program, part.shifts_at + 10 * (i - 1))
      return from, (seconds - 8388608) * 1000000
    end
    -- Returns the first instant, from shift i on, at which the zone's clocks show at least
    -- the local time moment.
    local function reached(i, moment)
      while true do
        local from, offset = shift(i)
        local instant = moment - offset
        if i > 1 and instant < from then instant = from end
        if i == part.shifts or instant < (shift(i + 1)) then return instant end
        i = i + 1
      end
    end
    -- Returns the number of days of a year that begins in March. year counts from 0 within
    -- its era of 400 years.
    local function days_of(year)
      return (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) and 366 or 365
    end
    local current = part.shifts
    while current > 1 and now < (shift(current)) do current = current - 1 end
    local _, offset = shift(current)
    local day, calendar = 86400000000, part.group
    local moment = now + offset
    local from, to
    if calendar <= 2 then
      local unit = calendar == 1 and 60000000 or 3600000000
      from = moment - moment % unit - offset
      return from, from + unit
    elseif calendar == 3 then
      from = moment - moment % day
      to = from + day
    elseif calendar == 5 then -- a week from Monday; 1970 began on a Thursday
      from = moment - (moment + 3 * day) % (7 * day)
      to = from + 7 * day
    else
      -- Howard Hinnant's civil_from_days. Years begin in March.
      local days = floor(moment / day)
      local doe = (days + 719468) % 146097
      local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
      local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
      if calendar == 6 then -- January is from day 306 on
        from = (days - doy + 306) * day
        to = from + days_of(yoe + 1) * day
        if doy < 306 then
          to = from
          from = from - days_of(yoe) * day
        end
      else
        local month = floor((5 * doy + 2) / 153)
        local begins = floor((153 * month + 2) / 5)
        local length = floor((153 * (month + 1) + 2) / 5) - begins
        if month == 11 then length = days_of(yoe + 1) - 337 end
        from = (days - doy + begins) * day
        to = from + length * day
      end
    end
    return reached(1, from), reached(current, to)
  end

  -- Lists the entries of the state by their order, and by their identity. Returns false if
  -- the state is not valid. An entry has what a part has, and expires: from when it counts
  -- nothing if it is not used.
  list_entries = function()
    local list, at, data = {}, HEAD, heads
    for i = 1, stored do
      if #s < at + ENTRY then return false end
      local bits, group, window = unpack('>I1I4I6', s, at + 1)
      local entry = {kind = bits % 8, shadow = bits % 16 >= 8, calls = bits % 32 >= 16, group = group,
        window = window, p = at, d = data, length = 0, size = ENTRY}
      if entry.kind < LOG or entry.kind > FIXED or group + window < 1 then return false end
      if entry.kind <= ATTEMPTS then
        local _, span, base, offset, room, deficits
        if #s < at + LOG_ENTRY or group < 1 or window < 4 or window > 6 then return false end
        _, span, _, _, base, offset, room, deficits = unpack('>I4I6I3I4I7I7I3I1', s, at + 12)
        entry.size, entry.length, entry.id = LOG_ENTRY, room * window + 11 * deficits, sub(s, at + 1, at + 5)
        entry.expires = base - offset + 2 * span
      else
        local _, start = unpack('>I4I7', s, at + 12)
        entry.id = sub(s, at + 1, at + 11)
        if entry.kind == BUCKET then
          entry.expires = start + 1
        elseif entry.kind == COUNTER then
          entry.expires = start + 2 * window
        else
          entry.expires = start + (LONGEST[group] or window)
        end
      end
      if entry.expires > now + 2 ^ 47 then entry.expires = 0 end -- a damaged state
      at, data = at + entry.size, data + entry.length
      list[i] = entry
      if not list[entry.id] then list[entry.id] = entry end
    end
    if at ~= heads or (not big and data ~= #s) then return false end
    entries = list
    for i = 1, #parts do
      local named = list[parts[i].id]
      if named then named.named = true end
    end
    return true
  end

  -- Reads the deficits of a log. Ignores impossible ones, and those of slots that do not
  -- count: without them too many calls count, never too few.
  read_deficits = function(log, number)
    local at, bytes = log.d + log.room * log.width, s
    if big then
      bytes, at = call('GETRANGE', key, at, at + 11 * number - 1), 0
    end
    local deficits, before = {}, log.low > 0 and slot(log, log.low) or 0
    for i = at + 1, at + 11 * number, 11 do
      if #bytes < i + 10 then break end
      local time, missing = unpack('>I7I4', bytes, i)
      if missing > 0 and missing < log.group and time > before and time < log.newest
        and time == slot(log, first_after(log, time - 1, 0)) then
        deficits[#deficits + 1] = {at = time, calls = missing}
        before = time
      end
    end
    log.deficits = #deficits > 0 and deficits or nil
  end

  -- Returns the number of calls of a log's deficits later than a time.
  missing_after = function(log, time)
    local missing = 0
    for _, deficit in ipairs(log.deficits or {}) do
      if deficit.at > time then missing = missing + deficit.calls end
    end
    return missing
  end

  -- Returns the number of calls in a log's slots later than a time.
  calls_after = function(log, time)
    local live = log.used - first_after(log, time, log.low)
    if live == 0 then return 0 end
    return log.fill + (live - 1) * log.group - missing_after(log, time)
  end

  -- Returns the index of the slot that must leave the window of a log with deficits so that
  -- at most some calls remain in it; -1 if no slot must leave.
  deciding_with_deficits = function(log, remaining)
    if calls_after(log, 0) <= remaining then return -1 end
    local lo, hi = log.low, log.used - 1
    while lo < hi do
      local mid = floor((lo + hi) / 2)
      local behind = log.fill + (log.used - 2 - mid) * log.group -- calls in later slots, before deficits
      if behind - missing_after(log, slot(log, mid)) <= remaining then hi = mid else lo = mid + 1 end
    end
    return lo
  end

  -- Returns slots from to before to of a log as bytes.
  slots_of = function(log, from, to)
    local out = ''
    local old = to < log.fresh and to or log.fresh
    if from < old then
      local q, r = from * log.width, old * log.width
      if log.bytes then
        out = sub(log.bytes, q + 1, r)
      elseif big then
        out = call('GETRANGE', key, log.d + q, log.d + r - 1)
      else
        out = sub(s, log.d + q + 1, log.d + r)
      end
    end
    if from < log.fresh then from = log.fresh end
    if from < to then out = out .. rep(encode(log, log.fresh_time), to - from) end
    return out
  end

  -- Returns the time (s) of the latest slot of a log that does not count because newer ones
  -- fill it, although it may be in a window; 0 for none.
  local function lost(log)
    if log.low > 0 then return ceil(slot(log, log.low - 1) / 1000000) end
    return log.dropped
  end

  -- Drops the slots of a log up to a time and those that do not count, and their deficits.
  -- The log's slots are then in log.bytes.
  trim = function(log, time)
    local low = log.low
    local first = first_after(log, time, low)
    if low > 0 and slot(log, low - 1) > time then log.dropped = lost(log) end
    log.bytes = slots_of(log, first, log.used)
    log.used = log.used - first
    log.fresh, log.low = log.used, 0
    if low > 0 and log.used > 0 and slot(log, 0) > time then time = slot(log, 0) end
    local deficits = {}
    for _, deficit in ipairs(log.deficits or {}) do
      if deficit.at > time then deficits[#deficits + 1] = deficit end
    end
    log.deficits = #deficits > 0 and deficits or nil
  end

  -- Pushes the calls of another log's slots that are later than after, up to the time
  -- until_time, shifted by a time. They are pieces of bytes: lumps.
  local function copy_lumps(log, from, after, until_time, shift, lumps)
    local first = first_after(from, after, from.low)
    local last = first_after(from, until_time, first)
    local size, n = ceil((last - first) / 64), 0
    if size > 0 then -- of older lumps, no slot would count
      local enough = ceil(log.group * (log.keep + 1) / (size * from.group)) + 1
      first = first + floor(max(0, last - first - enough * size) / size) * size
    end
    for begin = first, last - 1, size > 0 and size or 1 do
      local finish = begin + size
      if finish > last then finish = last end
      local count = (finish - begin) * from.group
      if finish == from.used then count = count + from.fill - from.group end
      local most = (log.keep + 1) * log.group
      if count > most then count = most end
      n = n + 1
      log.newest = slot(from, finish - 1) + shift
      lumps[n] = push(log, log.newest, count, lumps, n)
    end
    return n
  end

  -- Fills an empty log with the calls of another one, in lumps: the calls of a lump count
  -- until the latest of them leaves the window.
  local function copy(log, from)
    log.at, log.offset, log.dropped = from.at, from.at - now, lost(from)
    local lumps = {}
    copy_lumps(log, from, from.at - (log.span < from.span and log.span or from.span), from.at, 0, lumps)
    log.bytes = table.concat(lumps)
    log.fresh, log.low = log.used, max(0, log.used - log.keep)
    log.newest = from.newest
  end

  -- Adds calls to a log whose slots are pieces of bytes. Returns the piece for lumps[n].
  push = function(log, time, count, lumps, n)
    local slots = encode(log, time)
    if log.used > 0 and log.fill < log.group then
      local added = log.group - log.fill
      if added > count then added = count end
      lumps[n - 1] = sub(lumps[n - 1], 1, -log.width - 1)
      log.fill, count = log.fill + added, count - added
      log.used = log.used - 1
    else
      slots = ''
    end
    local more = ceil(count / log.group)
    if more > 0 then log.fill = count - (more - 1) * log.group end
    log.used = log.used + more + (slots == '' and 0 or 1)
    local piece, few = encode(log, time), more % 256
    if more > 255 then slots = slots .. rep(rep(piece, 256), (more - few) / 256) end
    return slots .. rep(piece, few)
  end

  -- Returns the log of the state with the longest window that knows calls which a new log
  -- counts: one of the same kind, otherwise one of the other, and of the same mode if there
  -- is one.
  local function source_of(log)
    local best, found = -1
    for i = 1, stored do
      local entry = entries[i]
      if entry.kind <= ATTEMPTS and entry.calls == log.calls and entry.id ~= log.id then
        local from = view(entry)
        if from then
          local rank = from.span + (entry.kind == log.kind and 2 ^ 50 or 0) + (entry.shadow and 0 or 2 ^ 51)
          if rank > best then best, found = rank, from end
        end
      end
    end
    return found
  end

  -- Returns a log of the state as it is, advanced to now; nil if it counts nothing.
  view = function(entry)
    local log = {kind = entry.kind, group = entry.group, calls = entry.calls, need_span = 0, need_keep = 0,
      need_width = 4, view = true}
    local old_p, old_d, old_write = p, d, must_write
    p, d = entry.p, entry.d
    local valid = read_log(log)
    p, d, must_write = old_p, old_d, old_write
    if valid and log.used > 0 then return log end
  end

  -- Returns the number of calls in the window of a part that other parts know: the largest
  -- count of those whose window lies in its own, or is the same week, month or year of
  -- another zone.
  local function known_calls(part)
    local aligned = part.kind == COUNTER or part.kind == FIXED
    local window = part.need_span or part.window
    local after, largest = now - window, 0 -- the calls are later than this time
    if aligned then after = part.start - 1 end
    for i = 1, stored do
      local entry = entries[i]
      if entry.id ~= part.id and entry.calls == part.calls then
        local known = 0
        if entry.kind <= ATTEMPTS then
          local log = part.kind > ATTEMPTS and view(entry) -- a new log copies the longest one
          if log then
            local reach = now - after
            known = calls_after(log, log.at - (reach < log.span and reach or log.span))
          end
        else
          local _, start, prev, cur = unpack('>I4I7I4I4', s, entry.p + 12)
          local from = {kind = entry.kind, group = entry.group, window = entry.window, start = start,
            prev = prev, cur = cur}
          if entry.kind == BUCKET then
            if now - entry.window >= after then known = owed_calls(from, debt(from)) end
          elseif entry.kind == FIXED then
            -- the same week, month or year of another zone begins up to 26 hours earlier
            local same = part.kind == FIXED and part.group == entry.group and part.group > 3
            if start > after - (same and 93600000000 or 0) and now < entry.expires then known = cur end
          else
            local write = must_write
            advance(from)
            must_write = write
            if not aligned and from.window <= window then
              known = estimate(from)
            elseif from.start > after then
              known = from.cur
            end
          end
        end
        if known > largest then largest = known end
      end
    end
    return largest < part.requests and largest or part.requests
  end

  -- Adds to a new part the calls that only other parts know, as if they were made now.
  local function seed(part)
    local largest = known_calls(part)
    if part.kind == BUCKET then
      local whole, rest = muldiv(largest, part.window, part.group)
      part.start, part.prev = now + whole, rest
    elseif part.kind > ATTEMPTS then
      part.cur = largest
    else
      local more = largest - calls_after(part, 0)
      if more > 0 then
        local lumps = {slots_of(part, 0, part.used)}
        lumps[2] = push(part, part.at, more, lumps, 2)
        part.bytes = table.concat(lumps)
        part.fresh, part.low, part.newest = part.used, max(0, part.used - part.keep), part.at
      end
    end
  end

  -- Fills a part that the state lacks.
  fill_new = function(part)
    local alive = false
    for i = 1, stored do alive = alive or entries[i].expires > now end
    if not alive then return end -- the subject made no calls that could count
    part.since = ceil(now / 1000000)
    if part.kind <= ATTEMPTS then
      local source = source_of(part)
      if source then copy(part, source) end
    end
    seed(part)
  end

  -- Puts before the slots of a log, whose window was short, the calls from before that
  -- window: those of another log, and those that only other parts know.
  local function lengthen(log, short)
    local before = {group = log.group, width = log.width, format = log.format, modulus = log.modulus,
      keep = log.keep, used = 0, fill = log.group}
    local lumps, n, from = {}, 0, source_of(log)
    if from then
      local span = log.span < from.span and log.span or from.span
      n = copy_lumps(before, from, from.at - span, from.at - short, log.at - from.at, lumps)
    end
    local slots = before.used < log.keep and before.used or log.keep
    local more = known_calls(log) - calls_after(log, 0)
      - (slots > 0 and before.fill + (slots - 1) * log.group or 0)
    if more > 0 then
      before.newest = log.at - short
      lumps[n + 1] = push(before, before.newest, more, lumps, n + 1)
    end
    if log.used == 0 then log.fill, log.newest = before.fill, before.newest end
    log.bytes, log.used = table.concat(lumps) .. log.bytes, log.used + before.used
    log.fresh, log.low = log.used, max(0, log.used - log.keep)
  end

  -- Lets a log, whose longest window was span, grow to what its section needs.
  -- Returns false if the state is not valid.
  grow = function(log, span)
    if log.view then return true end
    if not entries and not list_entries() then return false end
    must_write, rewrite = true, true
    local keep, longer = log.keep, log.need_span > span
    trim(log, log.at - span)
    if log.need_width > log.width then
      local old = {}
      for k, v in pairs(log) do old[k] = v end
      local since = log.since
      empty(log)
      log.since, log.keep = since, max(keep, log.keep)
      copy(log, old)
    end
    log.span, log.keep, log.idle = max(span, log.need_span), max(keep, log.need_keep), 0
    if longer then
      log.since = max(log.since, ceil((now - span) / 1000000))
      lengthen(log, span)
    end
    return true
  end
end
