-- Reads a program and a state: finds or makes the part of each section, and defines how a
-- limit is evaluated. model.go is the same in Go and has the layout of a state; program.go
-- has that of a program. script.go concatenates the parts of the step.
--
-- Input: these locals, of which the head of the script sets the first six.
-- key      key of the subject's state, one of KEYS
-- prog     compiled limits (Program)
-- counted  program of limits that only count, because an override replaces them; or ''
-- cost     cost to take, 1 to 1e9; 0 evaluates a cost of 1 and takes nothing; a negative
--          cost gives -cost back
-- calls    number of calls to give back with a negative cost; otherwise not used
-- taken    for a negative cost: when it was taken (us since 1970). For a positive cost: -1
--          takes it even where it does not fit, otherwise 0
-- now      the server's time (us since 1970)
-- s        the state, or its first 2048 bytes; empty without one
--
-- Numbers are doubles. All integers stay below 2^53, except the products in muldiv.
local byte, sub, rep, floor, ceil, max = string.byte, string.sub, string.rep, math.floor, math.ceil, math.max
local LOG, ATTEMPTS, COUNTER, BUCKET, FIXED = 1, 2, 3, 4, 5 -- kinds of parts
local DENIED, ALLOWED, TOO_HIGH = 0, 1, 2 -- verdicts
local PROGRAM_VERSION, STATE_VERSION = 3, 1
local PROGRAM_HEAD, SECTION, LIMIT = 3, 25, 14 -- bytes in a program
local HEAD, LOG_ENTRY, ENTRY = 4, 56, 30 -- bytes in a state
local MAX_COUNT = 2000000000
local MAX_SPAN, MAX_KEEP = 31622400000000, 200001 -- of a log

local limits, version, count = byte(prog, 1, 3)
if version ~= PROGRAM_VERSION then error('not a program') end
local big = #s == 2048
local take = cost > 0 and cost or 1
local parts = {} -- of each section
local stored, heads = 0, HEAD -- number of parts in the state, and bytes before the slots
local p, d = HEAD, HEAD -- offsets of the next entry in the state, and of its slots
local entries -- the entries of the state, if they were listed
local must_write, rewrite = false, false
-- Functions that few steps need. define_rare in rare.lua sets them.
local define_rare, list_entries, read_deficits, missing_after, calls_after, deciding_with_deficits, period
local slots_of, trim, push, view, fill_new, grow

-- Returns the bytes of a slot with a time.
local function encode(log, time) return pack(log.format, time % log.modulus + log.modulus) end

-- Returns slot i of a log (0 is the oldest) as a time on the log's clock (us).
local function slot(log, i)
  if i >= log.fresh then return log.fresh_time end
  local q, bytes = i * log.width, log.bytes
  if not bytes and big then
    bytes = call('GETRANGE', key, log.d + q, log.d + q + log.width - 1)
    q = 0
  elseif not bytes then
    bytes, q = s, log.d + q
  end
  if q + log.width > #bytes then return 0 end -- a damaged state
  return log.at - (log.at - unpack(log.format, bytes, q + 1)) % log.modulus
end

-- Returns the index of the first slot of a log later than a time, which is at least lo.
local function first_after(log, time, lo)
  local hi, probe = log.used, lo
  while lo < hi do
    if slot(log, probe) > time then hi = probe else lo = probe + 1 end
    probe = floor((lo + hi) / 2)
  end
  return lo
end

-- Returns floor(a * b / d) and the remainder, for a < 2^32, b and d < 2^45.
local function muldiv(a, b, d)
  local product = a * b
  if product < 9007199254740992 then
    local q = floor(product / d)
    local r = product - q * d
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

-- Returns a bucket's debt, the time until it is full: whole microseconds, and parts of
-- 1/limit of a microsecond.
local function debt(bucket)
  if bucket.start < now then return 0, 0 end
  return bucket.start - now, bucket.prev
end

-- Returns a debt (microseconds, parts) with a cost added.
local function debt_after(bucket, whole, part, added_cost)
  local added, rest = muldiv(added_cost, bucket.window, bucket.group)
  whole, part = whole + added, part + rest
  if part >= bucket.group then return whole + 1, part - bucket.group end
  return whole, part
end

-- Returns the number of calls that a debt stands for, rounded up.
local function owed_calls(bucket, whole, part)
  local owed, rest = muldiv(bucket.group, whole, bucket.window)
  return owed + ceil((rest + part) / bucket.window)
end

-- Returns how many tokens a bucket with a debt has left. It is negative for a debt of more
-- than the window.
local function tokens(bucket, whole, part)
  local window = bucket.window
  if whole >= window then return -owed_calls(bucket, whole - window, part) end
  local left, rest = muldiv(bucket.group, window - whole, window)
  if rest < part then left = left - ceil((part - rest) / window) end
  return left
end

-- Returns a counter's weighted count, rounded up.
local function estimate(counter)
  if counter.prev == 0 then return counter.cur end
  local weighted, rest = muldiv(counter.prev, counter.window - (now - counter.start), counter.window)
  if rest > 0 then weighted = weighted + 1 end
  return counter.cur + weighted
end

-- Sets the bytes per slot of a log.
local function set_width(log, width)
  log.width = width
  if width == 4 then
    log.format, log.modulus = '>I4', 2147483648
  elseif width == 5 then
    log.format, log.modulus = '>I5', 549755813888
  else
    log.format, log.modulus = '>I6', 140737488355328
  end
end

-- Makes a log empty, with what its section needs.
local function empty(log)
  set_width(log, log.need_width)
  log.span, log.keep, log.offset, log.at, log.base, log.room = log.need_span, log.need_keep, 0, now, now, 0
  log.used, log.fill, log.low, log.fresh, log.idle, log.since = 0, log.group, 0, 0, 0, 0
  log.dropped, log.deficits, log.bytes = 0, nil, nil
end

-- Reads the log whose entry and slots are at p and d. Returns false if it is not valid.
local function read_log(log)
  if #s < p + LOG_ENTRY then return false end
  local width, since, span, keep, dropped, base, offset, room, deficits, idle, used, fill =
    unpack('>I6I4I6I3I4I7I7I3I1I4I3I3', s, p + 6)
  local length = room * width + 11 * deficits
  if width < 4 or width > 6 or span < 1 or span > MAX_SPAN or keep > MAX_KEEP or deficits > 64 or used > room
    or fill < 1 or fill > log.group or offset > 2 ^ 47 or base > now + 2 ^ 47
    or (not big and #s < d + length) then
    return false
  end
  set_width(log, width)
  log.p, log.d, log.length = p, d, length
  log.span, log.keep, log.base, log.room, log.used, log.fill = span, keep, base, room, used, fill
  log.fresh, log.idle, log.since, log.dropped = used, idle, since, dropped
  local at = now + offset
  local recent = at - base < 2 * span
  local alive = used > 0 and recent
  if alive then
    log.at = base + span -- no slot is later
    local newest = slot(log, used - 1)
    if at < base or at < newest then -- the clock stepped back
      at, must_write = max(base, newest), true
    end
    log.at, log.offset, log.newest = at, at - now, newest
    alive = at - newest < span
  end
  if not alive then
    empty(log)
    -- A refund may still come for a call before the clock stepped back.
    if recent then log.at, log.offset = at, at - now end
    if log.need_span > span then
      define_rare()
      return grow(log, span)
    end
    return true
  end
  log.low = used > keep and used - keep or 0
  log.stored_deficits = deficits
  if deficits > 0 then
    define_rare()
    read_deficits(log, deficits)
  end
  if log.need_span > span or log.need_keep > keep then
    define_rare()
    return grow(log, span)
  end
  return true
end

-- Reads the counter, bucket or fixed window whose entry is at p. Returns false if it is
-- not valid.
local function read_part(part)
  if #s < p + ENTRY then return false end
  local since, start, prev, cur = unpack('>I4I7I4I4', s, p + 12)
  part.p, part.d, part.length, part.since, part.start, part.prev, part.cur = p, d, 0, since, start, prev, cur
  return true
end

-- Moves a counter or fixed window to the window that contains now, or limits the debt of
-- a bucket, which is larger than twice its window only if the clock stepped back.
local function advance(part)
  local kind = part.kind
  if kind == BUCKET then
    local whole, part_of = debt(part)
    if whole > 2 * part.window or (whole == 2 * part.window and part_of > 0) then
      part.start, part.prev, must_write = now + 2 * part.window, 0, true
    end
    return
  end
  local before, start = part.start
  if kind == FIXED and part.group > 0 then
    define_rare()
    start, part.ends = period(part)
  else
    start = now - now % part.window
    part.ends = start + part.window
  end
  part.start = start
  if start == before then return end
  part.began = true
  if start < before then
    must_write = true
  elseif kind == COUNTER and start == before + part.window then
    part.prev, part.cur = part.cur, 0
  else
    part.prev, part.cur = 0, 0
  end
end

-- Returns the section at byte q of a program as a part without counts.
local function section_at(program, q)
  local kind, group, window, span, keep, requests = unpack('>I1I4I6I6I4I4', program, q)
  local part = {kind = kind % 8, group = group, window = window, requests = requests, at = 0,
    start = 0, prev = 0, cur = 0, used = 0, fill = 0, low = 0, fresh = 0, since = 0, p = 0, d = 0, length = 0}
  part.shadow, part.calls = kind % 16 >= 8, kind % 32 >= 16
  kind = part.kind
  if kind < LOG or kind > FIXED or group + window < 1 or span < 1 then error('not a program') end
  if kind <= ATTEMPTS then
    if group < 1 or window < 4 or window > 6 then error('not a program') end
    part.need_width, part.need_span, part.need_keep = window, span, keep
    part.id = sub(program, q, q + 4) -- a log keeps its identity when its slots get wider
  else
    part.id = sub(program, q, q + 10)
  end
  return part
end

-- Finds or makes the parts of all sections. Returns false if the state is not valid.
local function open()
  stored, heads, p, d, entries = 0, HEAD, HEAD, HEAD, nil
  must_write, rewrite = false, false
  if #s >= HEAD then
    version, stored, heads = unpack('>I1I1I2', s)
    if version ~= STATE_VERSION then return false end
    d = heads
  elseif s ~= '' then
    return false
  end
  for i = 1, #parts do
    local part = parts[i]
    local id = part.id
    local found = entries == nil and i <= stored and sub(s, p + 1, p + #id) == id
    if not found and stored > 0 then
      define_rare()
      if not entries and not list_entries() then return false end
      found = entries[id]
      if found then
        p, d = found.p, found.d
        found.named = true
      end
    end
    if not found then
      must_write, rewrite = must_write or stored > 0, true
      if part.kind <= ATTEMPTS then empty(part) end
      if stored > 0 then define_rare() end
    elseif part.kind <= ATTEMPTS then
      if not read_log(part) then return false end
      p, d = p + LOG_ENTRY, d + part.length
    else
      if not read_part(part) then return false end
      p = p + ENTRY
    end
    if part.kind > ATTEMPTS then advance(part) end
    if not found and stored > 0 then fill_new(part) end
  end
  return entries ~= nil or stored ~= #parts or (p == heads and (big or d == #s))
end
