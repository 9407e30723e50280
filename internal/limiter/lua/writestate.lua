-- Last part of the general step: evaluates the limits, records the cost in the sections,
-- writes the state and sets reply. readstate.lua describes the input and output of the
-- step.

local allowed, attempts, exceeded = true, false, {}
local remaining, resets, retries, nexts, seconds = {}, {}, {}, {}, {}
local function evaluate()
  for i = 1, limits do
    remaining[i], resets[i], retries[i], nexts[i], seconds[i] = usage(list[i])
    local section = list[i].section
    if section.shadow and take > section.requests then retries[i] = 31622400000000 end
    if retries[i] > 0 and not section.shadow then allowed = false end
  end
end
evaluate()

if cost > 0 then
  for i = 1, limits do -- a limit in shadow mode shares its section with no other
    local section = list[i].section
    if section.shadow and retries[i] > 0 then exceeded[section] = retries[i] end
  end
  for i = 1, #sections do
    local section = sections[i]
    if ((allowed and not exceeded[section]) or section.kind == ATTEMPTS) and take <= section.requests then
      record(section)
      attempts = true
    end
  end
  if attempts then
    local verdict = allowed
    evaluate()
    allowed = verdict
    if allowed then for i = 1, limits do retries[i] = exceeded[list[i].section] or 0 end end
  end
end

-- Returns a log's part of a rewritten state, three strings: its numbers, its slots and
-- the notes of its deficits. number is the section's, from 1. Drops only slots that had
-- left every window at the time of the newest slot. The log's clock never goes back
-- before that time, so they cannot count again.
local function encode_log(log, number)
  local last = now + log.offset
  local refunded = cost < 0 and log.kind == LOG and not log.spared -- the newest slot may have been removed
  if log.used > 0 and not refunded then last = slot(log, log.used - 1) end
  local first = first_after(log, last - log.span)
  local count = log.used - first
  local most = ceil(log.requests / log.group)
  local room = count > 1 and floor(math.min(count * 1.5 + 8, most * 1.1 + 4)) or 3
  if room < count then room = count end
  local slots
  if log.times then
    local parts = {}
    for i = first, log.used - 1 do parts[#parts + 1] = encode_slot(log, log.times[i + 1]) end
    slots = table.concat(parts)
  elseif log.bytes then
    slots = sub(log.bytes, first * log.width + 1, log.used * log.width)
  else
    local old = math.max(math.min(log.fresh, log.used) - first, 0)
    local from, to = log.slots_at and log.slots_at + first * log.width, log.slots_at
      and log.slots_at + (first + old) * log.width
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
  local deficits = {}
  for i = 1, #log.deficits do
    local d = log.deficits[i]
    if d.at > last - log.span then deficits[#deficits + 1] = pack('>I1I7I4', number, d.at, d.calls) end
  end
  return pack('>I7I7I4I4I4I4', last, log.offset, room, keep, count, log.fill), slots
    .. rep('\0', (room - count) * log.width),
    table.concat(deficits)
end

-- Returns the notes of a bucket's valleys. number is the section's, from 1.
local function encode_valleys(bucket, number)
  if not bucket.since then return '' end
  local parts = {pack('>I1I7I4', number, bucket.since, bucket.full and 1 or 0)}
  for i = 1, #bucket.valleys do
    local v = bucket.valleys[i]
    parts[#parts + 1] = pack('>I1I7I4I1I7I4', number, v.at, v.part, number, v.whole, v.merged and 1 or 0)
  end
  return table.concat(parts)
end

if must_write or (attempts and due) then
  local life = 0
  local parts, slots, notes = {sig}, {}, ''
  for i = 1, #sections do
    local section = sections[i]
    local needed = 2 * section.span
    if section.kind <= ATTEMPTS then
      local deficits
      parts[#parts + 1], slots[#slots + 1], deficits = encode_log(section, i)
      notes = notes .. deficits
    else
      parts[#parts + 1] = pack('>I7I4I4', section.start, section.prev, section.cur)
      if section.kind == BUCKET then
        notes = notes .. encode_valleys(section, i)
      elseif section.kind == COUNTER then
        needed = section.start + 2 * section.span - now
      elseif section.kind == FIXED then
        needed = section.ends - now
      end
    end
    if needed > life then life = needed end
  end
  if notes ~= '' then
    parts[1] = sub(sig, 1, 1) .. string.char(#sections + 1) .. sub(sig, 3) .. NOTES
    parts[#parts + 1] = pack('>I7I7I4I4I4I4', 0, 0, #notes / 6, 0, #notes / 6, 0)
  end
  call('SET', key, table.concat(parts) .. table.concat(slots) .. notes, 'PX', ceil(life / 1000) + 1)
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
      -- The slot after the written ones must be free, whatever the state has there.
      if section.used < section.capacity then slots = slots .. rep('\0', section.width) end
      call('SETRANGE', key, section.slots_at + section.fresh * section.width, slots)
    end
  end
end

local pieces = {pack('>I1I7', allowed and 1 or 0, now)}
for i = 1, limits do
  pieces[i + 1] = pack('>I4I7I7I4I4', remaining[i], resets[i], retries[i], nexts[i], seconds[i])
end
if cost < 0 then pieces[limits + 2] = pack('>I4', unreturned) end
reply = table.concat(pieces)
