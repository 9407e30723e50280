-- Part of the general step, which handles every case: reads the state. The parts are
-- concatenated: calendar, readstate, carryover, step, refund, writestate. onesection.lua
-- and manysections.lua are shortcuts for common cases. model.go is the same step in Go.
--
-- Input: these locals, of which the head of the script sets the first four.
-- key     key of the subject's state, one of KEYS
-- prog    compiled limits, laid out as Program (program.go)
-- cost    cost to take, 1 to 1e9; 0 evaluates a cost of 1 and takes nothing; a negative
--         cost refunds -cost
-- refund  for a refund: when the cost was taken (us since 1970). Otherwise: -1 if the
--         cost may be refunded, for which a token bucket keeps notes; else 0
-- now     the server's time (us since 1970)
-- s       the state, or its first 2048 bytes; empty without one
--
-- Output: the local reply, a string:
--   1 byte    0 denied; 1 allowed; 2 the cost is above an enforced limit, and only the
--             time follows; 3 allowed, without reset and retry-after, which follow from
--             the time and the limit
--   7 bytes   the server's time (us since 1970)
--   for each limit:
--     4 bytes remaining cost
--     7 bytes reset (us from now)
--     7 bytes retry-after (us from now). A limit in shadow mode that the cost exceeds has
--             one although it denies no call and takes nothing: 366 days if the cost is
--             above the limit
--     8 bytes from which the reader computes when remaining rises. A log: us from now. A
--             counter: 4 bytes previous count, 4 bytes count. A token bucket: 4 bytes
--             parts of a microsecond, 4 bytes 0. A fixed window: 0
--   4 bytes   for a refund only: the part of the cost that a limit may still count, the
--             largest over all limits
--
-- The state is one string. Integers are big-endian:
--   signature of the program; sections are in its order. carryover.lua converts a state
--   with another signature
--   for each log:
--     7 bytes time of the newest slot at the last rewrite (us)
--     7 bytes clock offset (us)
--     4 bytes capacity (slots)
--     4 bytes of a log of attempts, which counts denied calls: number of slots to keep.
--             Of another log: by how much the oldest slot was older than the newest one
--             at the last rewrite (us; units of 65536 us for slots of over 4 bytes)
--     4 bytes used slots
--     4 bytes calls of the newest slot
--   for each other section:
--     7 bytes start of the window; of a token bucket: when it is full (us)
--     4 bytes previous count; of a token bucket: when it is full, parts of a microsecond
--     4 bytes count; of a token bucket: number of parts in a microsecond
--   slots of each log
--   notes for refunds, if any
--
-- A slot has the low bits of the time of its latest call (us). Its top bit is set, so a
-- zero slot is free. Slots are in time order. A state of window_bytes or more is read in
-- pieces, and its numbers of used slots are up to date. A shorter state is read whole:
-- zero bytes mark a log's first free slot, and a call writes only its slot.
--
-- With notes the signature has one more entry, NOTES. Its numbers are 14 bytes 0, 4 bytes
-- twice the number of notes, 4 bytes 0, the same 4 bytes again, 4 bytes 0. A note has 12
-- bytes: 1 byte number of the section (from 1), 7 bytes, 4 bytes. Notes are in the order
-- of sections. The notes of a log are its deficits (log.go): time, calls. The first note
-- of a token bucket (bucket.go) is the time since when it keeps valleys, and 1 if it was
-- full at that time. Each valley is two notes: time, parts; microseconds, 1 if it is
-- merged. onesection.lua and manysections.lua leave states with notes to this step.
--
-- Numbers are doubles. All integers stay below 2^53, except the products in muldiv.
local byte, sub, rep, ceil = string.byte, string.sub, string.rep, math.ceil
local window_bytes = 2048
local LOG, ATTEMPTS, COUNTER, BUCKET, FIXED = 1, 2, 3, 4, 5

local limits, _, _, siglen = byte(prog, 1, 4)
siglen = 2 + 12 * siglen
local sig = sub(prog, 3, 2 + siglen)
local big = #s == window_bytes
-- The last entry of a state's signature if notes for refunds follow the slots. It
-- describes a log that no program has, so that older releases carry over only the other
-- sections.
local NOTES = '\1\0\0\0\1\6\0\0\0\0\0\1'
local stored = byte(s, 2) or 0 -- sections of the state
local has_notes = stored > 1 and sub(s, 12 * stored - 9, 12 * stored + 2) == NOTES
if has_notes then stored = stored - 1 end
local same_sections = byte(s, 1) == byte(sig, 1) and sub(s, 3, 12 * stored + 2) == sub(sig, 3)
local take = cost
if cost <= 0 then take = 1 end

-- Returns floor(a * b / d) and the remainder, for a < 2^30, b and d < 2^45.
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

-- Returns the sections that a signature lists. count is their number. A section has:
--   kind, group (calls per slot), width (bytes per slot), span (us), shadow
--   calendar, 0 for none; shifts and shifts_at, their number and position in prog
--   requests, the largest limit of the section
--   of a log: rewritten, offset, newest (us); capacity, used, fill, keep; deficits;
--   fresh, the first slot that is not stored yet, with the time fresh_time; base, the
--   first slot that counts; slots_at, the position of its slots; times or bytes, its
--   slots after a carry-over or a refund
--   of another section: start, prev, cur as in the state; ends; since, full and valleys
--   of a token bucket (bucket.go)
local function sections_of(signature, count)
  local sections = {}
  for i = 1, count do
    local kind, group, width, span = unpack('>I1I4I1I6', signature, 3 + 12 * (i - 1))
    local shadow = kind > 8
    if shadow then kind = kind - 8 end
    sections[i] = {kind = kind, group = group, width = width, span = span, calendar = 0, requests = 0,
      shadow = shadow, deficits = {}, valleys = {}}
    if kind == FIXED then sections[i].calendar = group end
    if kind <= ATTEMPTS then
      sections[i].modulus = 2 ^ (8 * width - 1)
      sections[i].format = '>I' .. width
    end
  end
  return sections
end

-- Returns slot i of a log (0 is the oldest) as a time on the log's clock (us).
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
  if log.newest and time > log.newest then return log.newest end -- a damaged slot denies at most a window
  return time
end

-- Returns the index of the first slot of a log that is later than a time, or log.used if
-- there is none.
local function first_after(log, time)
  local lo, hi = log.base, log.used
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if slot(log, mid) > time then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- Returns the number of calls of a log's deficits later than a time.
local function missing_after(log, time)
  local calls = 0
  for i = 1, #log.deficits do
    if log.deficits[i].at > time then calls = calls + log.deficits[i].calls end
  end
  return calls
end

-- Returns the number of calls in a log's slots later than a time.
local function calls_after(log, time)
  local live = log.used - first_after(log, time)
  if live == 0 then return 0 end
  return log.fill + (live - 1) * log.group - missing_after(log, time)
end

-- Returns the number of calls that slot i of a log stands for. Of several slots with the
-- same time, the first one has the deficit.
local function calls_in(log, i)
  if i == log.used - 1 then return log.fill end
  local at = slot(log, i)
  if #log.deficits == 0 or (i > log.base and slot(log, i - 1) == at) then return log.group end
  return log.group - (missing_after(log, at - 1) - missing_after(log, at))
end

-- Returns the bytes of a slot with a time.
local function encode_slot(log, time) return pack(log.format, time % log.modulus + log.modulus) end

-- Reads the deficits and valleys in the bytes of the notes. Ignores impossible deficits:
-- without them too many calls count, never too few.
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

-- Reads the state into its sections and returns them. Returns nil if it is not valid.
local function decode(sections)
  local at = 2 + 12 * #sections
  if has_notes then at = at + 12 end
  for i = 1, #sections do
    local section = sections[i]
    section.at = at
    if section.kind <= ATTEMPTS then
      if #s < at + 30 then return nil end
      section.rewritten, section.offset, section.capacity, section.keep, section.used,
        section.fill = unpack('>I7I7I4I4I4I4', s, at + 1)
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
      if log.used > log.capacity or log.group < 1 or log.fill > log.group or log.offset > 2 ^ 47
        or log.rewritten - now > 2 ^ 47 then
        return nil
      end
      log.fresh, log.base = log.used, 0
      if log.kind == ATTEMPTS and log.keep > 0 and log.used > log.keep then log.base = log.used - log.keep end
      if log.group == 1 then log.fill = 1 end -- the stored fill may be out of date
    end
  end
  notes_at = at
  at = at + notes_length
  if (not big and #s ~= at) or (big and call('STRLEN', key) ~= at) then return nil end
  if notes_length > 0 and big then
    decode_notes(sections, call('GETRANGE', key, notes_at, at - 1))
  elseif notes_length > 0 then
    decode_notes(sections, sub(s, notes_at + 1, at))
  end
  return sections
end

-- Makes a section empty.
local function blank(section)
  if section.kind <= ATTEMPTS then
    section.rewritten, section.offset, section.capacity, section.used, section.fill, section.keep = now, 0,
      0, 0, 0, 0
    section.fresh, section.base = 0, 0
  else
    section.start, section.prev, section.cur = 0, 0, 0
    if section.kind ~= BUCKET then section.start = period(section) end
  end
end

-- Returns a bucket's debt, the time until it is full: whole microseconds, and parts of
-- 1/cur of a microsecond.
local function debt(bucket)
  if bucket.start < now then return 0, 0 end
  return bucket.start - now, bucket.prev
end

-- Returns a bucket's debt (microseconds, parts) with a cost added.
local function debt_after(bucket, added_cost)
  local whole, part = debt(bucket)
  local added, rest = muldiv(added_cost, bucket.span, bucket.requests)
  whole, part = whole + added, part + rest
  if part >= bucket.requests then return whole + 1, part - bucket.requests end
  return whole, part
end

-- Returns the number of calls that a debt stands for, rounded up.
local function owed_calls(whole, part, requests, span)
  local calls, rest = muldiv(requests, whole, span)
  return calls + ceil((rest + part) / span)
end

-- Returns a counter's weighted count, rounded up.
local function estimate(counter)
  local weighted, rest = muldiv(counter.prev, counter.span - (now - counter.start), counter.span)
  if rest > 0 then weighted = weighted + 1 end
  return counter.cur + weighted
end

-- Advances a section with its largest limit to the time now. Returns whether the state
-- must therefore be written, because the clock stepped back or a limit changed, and
-- whether a window began.
local function advance(section, requests)
  if section.kind <= ATTEMPTS then
    if section.used == 0 then return false, false end
    local newest = slot(section, section.used - 1)
    section.newest = newest
    if newest <= now + section.offset then return false, false end
    section.offset = newest - now
    return true, false
  elseif section.kind == BUCKET then
    local whole, part = debt(section)
    if whole == 0 and part == 0 then return false, false end -- keep it, because the clock may step back
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
    section.prev = section.cur
    section.cur = 0
  else
    section.prev, section.cur = 0, 0
  end
  return false, true
end

