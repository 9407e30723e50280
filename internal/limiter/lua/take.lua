-- Part of the step: takes a cost or gives it back, and writes the state.

local unreturned = 0

-- Records the step's cost in a log.
local function admit(log)
  local at, used, group, width = log.at, log.used, log.group, log.width
  local cost = log.calls and 1 or cost
  local most = (log.keep + 1) * group -- more would be dropped at once
  if cost > most then cost = most end
  if log.need_span >= log.span then
    log.idle = 0
  elseif log.idle == 0 then
    log.idle = ceil(now / 1000000)
  elseif now - log.idle * 1000000 >= log.span then
    log.span, log.idle, rewrite = log.need_span, 0, true
  end
  local from = used
  if used > 0 and log.fill < group then
    from = used - 1
    local added = group - log.fill
    if added > cost then added = cost end
    log.fill, cost = log.fill + added, cost - added
  end
  if cost > 0 then
    local more = ceil(cost / group)
    log.fill = cost - (more - 1) * group
    used = used + more
  end
  if log.used == 0 or used > log.room or at - log.base >= log.span then rewrite = true end
  if log.fresh > from then log.fresh = from end
  log.used, log.fresh_time, log.newest = used, at, at
  log.low = used > log.keep and used - log.keep or 0
end

-- Records the step's cost in a part. Returns false if it does not count it.
local function record(part)
  if part.calls and taken == -1 then return false end
  local cost = part.calls and 1 or cost
  part.recorded = true
  if part.kind <= ATTEMPTS then
    part.filled = part.fill
    admit(part)
  elseif part.kind == BUCKET then
    local whole, part_of = debt(part)
    if part.start < now then part.cur = 0 end
    local most, dropped = 2 * part.window, max(0, cost - 2 * part.group)
    whole, part_of = debt_after(part, whole, part_of, cost - dropped)
    if whole >= most then
      dropped = dropped + owed_calls(part, whole - most, part_of)
      whole, part_of = most, 0
    end
    part.cur = part.cur + dropped
    if part.cur > MAX_COUNT then part.cur = MAX_COUNT end
    part.start, part.prev, part.began = now + whole, part_of, true
  else
    part.cur = part.cur + cost
    if part.cur > MAX_COUNT then part.cur = MAX_COUNT end
  end
  return true
end

-- Returns a log's entry and slots in a rewritten state. Drops only slots that had left
-- every window at the time of the newest slot: the log's clock never goes back before it.
local function encode_log(log)
  define_rare()
  local base = log.at
  if log.used > 0 and (cost >= 0 or log.kind == ATTEMPTS) then base = log.newest end
  trim(log, base - log.span)
  local number, most, room = log.used, ceil(log.requests / log.group), 3
  if number > most then most = number end
  if number > 1 then
    room = floor(number * 3 / 2) + 8
    most = floor(most * 11 / 10) + 1
    if room > most then room = most end
    if room < number then room = number end
  end
  local deficits = {log.bytes, rep('\0', (room - number) * log.width)}
  for _, deficit in ipairs(log.deficits or {}) do
    deficits[#deficits + 1] = pack('>I7I4', deficit.at, deficit.calls)
  end
  return log.id .. pack('>I6I4I6I3I4I7I7I3I1I4I3I3', log.width, log.since, log.span, log.keep,
    log.dropped, base, log.offset, room, #deficits - 2, log.idle, number, log.fill), table.concat(deficits), base - log.offset + 2 * log.span
end

-- Returns from when a part of the step that is not a log counts nothing.
local function expiry(part)
  if part.kind == BUCKET then return part.start + 1 end
  if part.kind == COUNTER then return part.start + 2 * part.window end
  return part.ends
end

-- Writes the whole state: the step's parts, then the others that have not expired.
local function write_all()
  local heads_out, slots_out, ends = {}, {}, now
  for i = 1, #parts do
    local part, expires = parts[i]
    if part.kind <= ATTEMPTS then
      heads_out[i], slots_out[i], expires = encode_log(part)
    else
      heads_out[i] = part.id .. pack('>I4I7I4I4', part.since, part.start, part.prev, part.cur)
      slots_out[i] = ''
      expires = expiry(part)
    end
    if expires > ends then ends = expires end
  end
  define_rare()
  if stored > 0 and (entries or list_entries()) then
    local others = {}
    for i = 1, stored do
      local entry = entries[i]
      if not entry.named and entry.expires > now then others[#others + 1] = entry end
    end
    while #parts + #others > 32 do -- those that expire first go
      local first = 1
      for i = 2, #others do
        if others[i].expires < others[first].expires then first = i end
      end
      table.remove(others, first)
    end
    for i = 1, #others do
      local entry = others[i]
      local slots = ''
      if entry.length > 0 and big then
        slots = call('GETRANGE', key, entry.d, entry.d + entry.length - 1)
      elseif entry.length > 0 then
        slots = sub(s, entry.d + 1, entry.d + entry.length)
      end
      heads_out[#heads_out + 1], slots_out[#slots_out + 1] = sub(s, entry.p + 1, entry.p + entry.size), slots
      if entry.expires > ends then ends = entry.expires end
    end
  end
  local head = table.concat(heads_out)
  head = pack('>I1I1I2', STATE_VERSION, #heads_out, HEAD + #head) .. head
  call('SET', key, head .. table.concat(slots_out), 'PX', ceil((ends - now) / 1000) + 1)
end

-- Writes what has changed in the state where it is.
local function write_changes()
  local low, high, renew, text = #s, 0, false, s
  local function write(at, bytes)
    if big then
      call('SETRANGE', key, at, bytes)
    else
      text = sub(text, 1, at) .. bytes .. sub(text, at + #bytes + 1)
      if at < low then low = at end
      if at + #bytes > high then high = at + #bytes end
    end
  end
  for i = 1, #parts do
    local part = parts[i]
    if part.kind > ATTEMPTS then
      if part.recorded or must_write then
        renew = renew or part.began
        write(part.p + 15, pack('>I7I4I4', part.start, part.prev, part.cur))
      end
    elseif part.used > 0 and (part.recorded or must_write) then
      write(part.p + 35, pack('>I7I3I1I4I3I3', part.offset, part.room, part.stored_deficits, part.idle,
        part.used, part.fill))
      if part.recorded then
        write(part.d + part.fresh * part.width, rep(encode(part, part.fresh_time), part.used - part.fresh))
      end
    end
  end
  if renew then
    local ends = now
    for i = 1, #parts do
      local part = parts[i]
      if part.kind > ATTEMPTS and expiry(part) > ends then ends = expiry(part) end
    end
    renew = ceil((ends - now) / 1000) + 1
  end
  if not big and high > 0 then call('SETRANGE', key, low, sub(text, low + 1, high)) end
  if renew then call('PEXPIRE', key, renew, 'GT') end
end

if cost > 0 and not reply then
  local recorded, exceeded = false, {}
  for i = 1, limits do
    if of[i].shadow and results[6 * i - 3] > 0 then exceeded[of[i]] = true end
  end
  for i = 1, #parts do
    local part = parts[i]
    if (allowed and not exceeded[part]) or taken == -1 or part.kind == ATTEMPTS then
      recorded = record(part) or recorded
    end
  end
  if recorded then
    for i = 1, limits do
      local part, k = of[i], 6 * i - 5
      if part.recorded then
        local retry = results[k + 2]
        results[k], results[k + 1], results[k + 2], results[k + 3], results[k + 4] = evaluate(i)
        if allowed then results[k + 2] = retry end
      end
    end
  end
  if rewrite and (recorded or must_write) then
    write_all()
  elseif recorded or must_write then
    write_changes()
  end
end
