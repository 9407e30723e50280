-- One atomic sliding-window step over every limit of one subject.
--
-- A head chunk runs before this one and must set three locals:
--   key   the subject's state key, one of KEYS
--   prog  the compiled limits, bytes as Program lays them out (program.go)
--   cost  how much to take, a whole number 0 to 1e9; 0 looks at a cost of 1 and takes nothing
-- A tail chunk runs after it and returns `reply`, a string of big-endian integers:
--   1 byte    1 when allowed, 0 when denied, 2 when the cost is above a limit (nothing else follows the time then)
--   7 bytes   the server's time, microseconds since 1970
--   per limit 4 bytes remaining, 7 bytes reset, 7 bytes retry-after (microseconds from now)
--
-- The state is one string, every integer big-endian:
--   signature, equal to the one inside prog unless windows or algorithms changed (then `rebuild` carries the history over)
--   per counter limit: 7 bytes start of the current window (us), 4 bytes previous count, 4 bytes current count
--   if there is a log: 7 bytes time of the newest slot at the last rewrite, 7 bytes clock offset, 4 bytes capacity, 4 bytes used slots, then `capacity` slots
-- A slot is the low bits of the time of one admitted unit of cost; its top bit is set, so that a zero slot is a free one. Slots are in time order.
-- Every log limit of the subject reads the same slots. A state longer than `window_bytes` keeps its number of used slots up to date and is read in
-- pieces; a shorter one is read whole, its first free slot is found by its zero bytes, and an admission writes nothing but the slot.
--
-- Numbers are doubles: every integer stays below 2^53, products that may not are made by `muldiv`.

local call, unpack, pack, byte, sub, rep = redis.call, struct.unpack, struct.pack, string.byte, string.sub, string.rep
local floor = math.floor
local window_bytes = 2048

local t = call('TIME')
local now = t[1] * 1000000 + t[2]

local limits, siglen, width, counters = byte(prog, 1, 2)
local sig = sub(prog, 3, 2 + siglen)
width, counters = byte(sig, 2, 3)
local take = cost
if cost == 0 then take = 1 end

local s = call('GETRANGE', key, 0, window_bytes - 1)
local counters_at = siglen
local log_at = siglen + 15 * counters
local slots_at = log_at + 22

-- floor(a * b / d) for a < 2^30, b and d < 2^45, and whether it is exact.
local function muldiv(a, b, d)
  local p = a * b
  if p < 9007199254740992 then
    local q = floor(p / d)
    local r = p - q * d
    if r < 0 then
      q = q - 1
      r = r + d
    elseif r >= d then
      q = q + 1
      r = r - d
    end
    return q, r == 0
  end
  -- Schoolbook long division, seven bits of `a` at a time: the remainder stays below d < 2^45, so remainder * 2^7 + 127 * b stays below 2^53.
  local quotient, remainder = 0, 0
  for shift = 28, 0, -7 do
    local digit = floor(a / 2 ^ shift) % 128
    local x = remainder * 128 + digit * b
    local q = floor(x / d)
    local r = x - q * d
    if r < 0 then
      q = q - 1
      r = r + d
    elseif r >= d then
      q = q + 1
      r = r - d
    end
    quotient = quotient * 128 + q
    remainder = r
  end
  return quotient, remainder == 0
end

-- A counter at the time `at`: its window rolled forward, or moved back to where a stepped-back clock is. The last result says that it was moved back.
local function roll(at, window, start, prev, cur)
  local current = at - at % window
  if current == start then return start, prev, cur, false end
  if current < start then return current, prev, cur, true end
  if current == start + window then return current, cur, 0, false end
  return current, 0, 0, false
end

-- The weighted estimate of a rolled counter at the time `at`, rounded up.
local function estimate(at, window, start, prev, cur)
  if prev == 0 then return cur end
  local weighted, exact = muldiv(prev, window - (at - start), window)
  if not exact then weighted = weighted + 1 end
  return cur + weighted
end

-- The state, decoded: the log's numbers, and the counters' in three tables.
local modulus, half, slot_format
if width > 0 then
  modulus = 2 ^ (8 * width - 1)
  half = modulus / 2
  slot_format = '>I' .. width
end
local horizon = 0
if width > 0 then horizon = unpack('>I6', sig, 4) end
local starts, prevs, curs = {}, {}, {}
local rewritten, offset, capacity, used = now, 0, 0, 0
local at = now       -- the log's clock: never behind its newest slot
local must_write = false
local big = false

-- Slot i of the log, 0 the oldest, as a time on the log's clock.
local function slot(i)
  local p = slots_at + i * width
  local low
  if big then
    low = unpack(slot_format, call('GETRANGE', key, p, p + width - 1))
  else
    low = unpack(slot_format, s, p + 1)
  end
  local delta = (low - rewritten) % modulus
  if delta >= half then delta = delta - modulus end
  return rewritten + delta
end

-- The first slot in lo..used-1 that is later than `time`, or `used`.
local function first_after(lo, time)
  local hi = used
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if slot(mid) > time then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- The bytes of a slot.
local function encode_slot(time)
  return pack(slot_format, time % modulus + modulus)
end

local kept = nil -- the log's slots after a rebuild, encoded; nil while they stand in the state

-- The window of counter j.
local function window_of(j) return (unpack('>I6', sig, 4 + 6 * j)) end

-- Carries a state with another signature over: model.go's rebuild says by what rules. A string that is no state of ours is left for a fresh start.
local function rebuild()
  local old_width, old_counters = byte(s, 2, 3)
  local ok = byte(s, 1) == 1 and old_width and (old_width == 0 or old_width == 4 or old_width == 5 or old_width == 6)
      and old_counters and old_counters <= 8
  local old_siglen = ok and 9 + 6 * old_counters
  local old_log_at = ok and old_siglen + 15 * old_counters
  if not ok or #s < old_log_at or (old_width > 0 and #s < old_log_at + 22) then return end
  must_write = true

  local estimated = 0
  local old = {}
  for j = 1, old_counters do
    local window = unpack('>I6', s, 4 + 6 * j)
    local start, prev, cur = unpack('>I7I4I4', s, old_siglen + 15 * (j - 1) + 1)
    if window < 1 then return end
    start, prev, cur = roll(now, window, start, prev, cur)
    local e = estimate(now, window, start, prev, cur)
    if e > estimated then estimated = e end
    local name = sub(s, 4 + 6 * j, 9 + 6 * j)
    if not old[name] then old[name] = {start, prev, cur} end
  end

  local times = {}
  if old_width > 0 then
    local new_width, new_slots_at, new_modulus, new_half, new_format = width, slots_at, modulus, half, slot_format
    local old_horizon = unpack('>I6', s, 4)
    width, slots_at = old_width, old_log_at + 22
    modulus = 2 ^ (8 * width - 1)
    half = modulus / 2
    slot_format = '>I' .. width
    rewritten, offset, capacity, used = unpack('>I7I7I4I4', s, old_log_at + 1)
    s = call('GET', key)
    if #s ~= slots_at + capacity * width then
      used = 0
    elseif #s < window_bytes then
      used = floor((string.find(s .. rep('\0', width), rep('\0', width), slots_at + 1, true) - 1 - slots_at + width - 1) / width)
    end
    at = now + offset
    if used > 0 and slot(used - 1) > at then
      offset = offset + slot(used - 1) - at
      at = now + offset
    end
    local keep = old_horizon
    if new_width > 0 and horizon < keep then keep = horizon end
    for i = first_after(0, at - keep), used - 1 do times[#times + 1] = slot(i) end
    width, slots_at, modulus, half, slot_format = new_width, new_slots_at, new_modulus, new_half, new_format
  end

  for j = 1, counters do
    local window = window_of(j)
    local same = old[sub(sig, 4 + 6 * j, 9 + 6 * j)]
    if same then
      starts[j], prevs[j], curs[j] = same[1], same[2], same[3]
    else
      local count = estimated
      if old_width > 0 then
        count = 0
        for i = #times, 1, -1 do
          if at - times[i] >= window then break end
          count = count + 1
        end
      end
      starts[j], prevs[j], curs[j] = now - now % window, 0, count
    end
  end

  if width == 0 then
    used = 0
    return
  end
  if old_width == 0 then
    local most = 0
    for i = 0, limits - 1 do
      local n, j = unpack('>I4I1', prog, 3 + siglen + 11 * i)
      if j == 0 and n > most then most = n end
    end
    if estimated > most then estimated = most end
    for i = 1, estimated do times[i] = at end
  end
  local encoded = {}
  for i, time in ipairs(times) do encoded[i] = encode_slot(time) end
  kept = table.concat(encoded)
  rewritten, used, capacity = at, #times, #times
  s = rep('\0', slots_at) .. kept
  big = false
end

local matches = sub(s, 1, siglen) == sig and #s >= log_at + (width > 0 and 22 or 0)
local rolled = not matches
if matches then
  for j = 1, counters do
    local start, prev, cur = unpack('>I7I4I4', s, siglen + 15 * (j - 1) + 1)
    local moved
    starts[j], prevs[j], curs[j], moved = roll(now, window_of(j), start, prev, cur)
    if moved then must_write = true end
    if starts[j] ~= start then rolled = true end
  end
  if width > 0 then
    rewritten, offset, capacity, used = unpack('>I7I7I4I4', s, log_at + 1)
    big = #s == window_bytes
    if not big then
      local free = string.find(s, rep('\0', width), slots_at + 1, true)
      if free then used = floor((free - 1 - slots_at + width - 1) / width) else used = capacity end
    end
    if used > capacity or offset > 2 ^ 47 or rewritten - now > 2 ^ 47 or (not big and #s ~= slots_at + capacity * width) then
      rewritten, offset, capacity, used, big = now, 0, 0, 0, false -- not a state of ours: start afresh
    end
    at = now + offset
  end
else
  for j = 1, counters do starts[j], prevs[j], curs[j] = now - now % window_of(j), 0, 0 end
  if #s > 0 then rebuild() end
end

local newest = 0
if used > 0 then
  newest = slot(used - 1)
  if newest > at then -- the server's clock stepped back: the log's clock goes on from its newest slot
    offset = offset + newest - at
    at = newest
    must_write = true
  end
end

local allowed = true
local remaining, resets, retries = {}, {}, {}
for i = 1, limits do
  local n, j, window = unpack('>I4I1I6', prog, 3 + siglen + 11 * (i - 1))
  if take > n then
    return pack('>I1I7', 2, now)
  end
  local left, reset, retry = n, 0, 0
  if j == 0 then
    if used > 0 then
      local deciding = used - n + take - 1
      if deciding >= 0 then retry = window - (at - slot(deciding)) end
      left = n - used + first_after(used > n and used - n or 0, at - window)
      reset = window - (at - newest)
    end
  else
    local start, prev, cur = starts[j], prevs[j], curs[j]
    local elapsed = now - start
    left = n - estimate(now, window, start, prev, cur)
    if take > left then
      if cur + take <= n then
        retry = window - muldiv(n - cur - take, window, prev) - elapsed
      else
        retry = 2 * window - muldiv(n - take, window, cur) - elapsed
      end
    end
    if cur > 0 then reset = 2 * window - elapsed elseif prev > 0 then reset = window - elapsed end
  end
  if retry > 0 then allowed = false end
  remaining[i] = left > 0 and left or 0
  resets[i] = reset > 0 and reset or 0
  retries[i] = retry > 0 and retry or 0
end

local taken = (allowed and cost) or 0
if taken > 0 then
  for i = 1, limits do
    local _, j, window = unpack('>I4I1I6', prog, 3 + siglen + 11 * (i - 1))
    remaining[i] = remaining[i] - taken
    resets[i] = j == 0 and window or 2 * window - (now - starts[j])
  end
  for j = 1, counters do curs[j] = curs[j] + taken end
end

local due = rolled or (width > 0 and (used + taken > capacity or math.abs(at - rewritten) >= horizon))
if must_write or (taken > 0 and due) then
  local life = 0
  local parts = {sig}
  for j = 1, counters do
    parts[#parts + 1] = pack('>I7I4I4', starts[j], prevs[j], curs[j])
    local needed = starts[j] + 2 * window_of(j) - now
    if needed > life then life = needed end
  end
  if width > 0 then
    -- Only what is out of every window as of the newest slot goes: the clock never gets behind that, so it can never come back in.
    local last = at
    if taken == 0 and used > 0 then last = newest end
    local first = first_after(0, last - horizon)
    local from, to = slots_at + first * width, slots_at + used * width
    local live
    if big then live = call('GETRANGE', key, from, to - 1) else live = sub(s, from + 1, to) end
    if first == used then live = '' end
    local count = used - first + taken
    local most = 0
    for i = 1, limits do
      local n, j = unpack('>I4I1', prog, 3 + siglen + 11 * (i - 1))
      if j == 0 and n > most then most = n end
    end
    local room = math.min(floor(count * 3 / 2), most + floor(most / 8)) + 4
    if room < count then room = count end
    parts[#parts + 1] = pack('>I7I7I4I4', last, offset, room, count)
    parts[#parts + 1] = live
    parts[#parts + 1] = rep(encode_slot(at), taken)
    parts[#parts + 1] = rep('\0', (room - count) * width)
    if 2 * horizon > life then life = 2 * horizon end
  end
  call('SET', key, table.concat(parts), 'PX', string.format('%.0f', math.ceil(life / 1000) + 1))
elseif taken > 0 then
  for j = 1, counters do call('SETRANGE', key, siglen + 15 * (j - 1) + 11, pack('>I4', curs[j])) end
  if width > 0 then
    if big then call('SETRANGE', key, log_at + 18, pack('>I4', used + taken)) end
    call('SETRANGE', key, slots_at + used * width, rep(encode_slot(at), taken))
  end
end

local pieces = {pack('>I1I7', allowed and 1 or 0, now)}
for i = 1, limits do pieces[i + 1] = pack('>I4I7I7', remaining[i], resets[i], retries[i]) end
local reply = table.concat(pieces)
