-- Begins every script, after prelude.lua: reads the states, and finds the instant of the
-- call. What every call runs has no functions: a closure costs as much as a search.
--
-- Integers are big-endian and below 2^53; instants are microseconds since 1970, and windows
-- microseconds. All keys are declared, and in one slot.
--
-- A log: version I1 (1), began I7, keep I6, keep2 I6, number I4, num2 I4, full I3, next I3;
-- then its entries, oldest first: time I7, total I5 (modulo 2^40).
-- A small state: version I1 (1), last I7, window I6, first I7, start I7, previous I5,
-- parts I6, count I5.
-- model.go says what the fields mean. A damaged state counts as none.
--
-- It uses the locals that a head sets:
--   clock  the server's time
--   reset  when the caller was reset; what was counted up to then does not count; 0: never
--   first  KEYS[first] is the key of the first state; those of the others follow
--   list   I1, 1 if a state is not a log, else 0; then of each state:
--            I1   algorithm (0 log, 1 counter, 2 token bucket, 3 fixed window),
--                 +4: counts denied calls too, +8: shadow, +16: has periods,
--                 +32: is charged (give.lua)
--            I1   number of limits that are asked
--            I4   what the call costs, 0 to 10^9; in give.lua what changes, to 4 * 10^9
--            I4   largest number of its limits, 1 to 10^9
--            I6   longest window of its limits, up to 2^45
--            4 I7 with periods: beginnings of the previous, present and next, its end
--            of each limit that is asked: I4 number, I6 window
local HEAD, ENTRY, SMALL = 34, 12, 44
local READ, TAIL, FROM = 200, 2408, '-2408' -- entries, bytes and first byte that are read
local PART, LEAST, PIECE = 500, 24, 300
local M, REACH = 2^40, 2^38
local sub, floor, min, max = string.sub, math.floor, math.min, math.max
local texts, heads, sizes = {} -- by place in KEYS: a state; of a long log its end, head and size
local now = max(clock, reset + 1) -- a call has one instant in all states
for k = first, #KEYS do
  local s = call('GETRANGE', KEYS[k], FROM, '-1')
  local size, head = #s, s
  if size == TAIL then -- no whole log has this size, so it is longer
    head, size = call('GETRANGE', KEYS[k], '0', '45'), call('STRLEN', KEYS[k])
    heads, sizes = heads or {}, sizes or {}
    heads[k], sizes[k] = head, size
  end
  if size == SMALL or size > HEAD and (size - HEAD) % ENTRY == 0 then
    local version, began, keep = unpack('>I1I7I6', head) -- of a small state: last call and window
    if version == 1 and began + 2 * keep > clock then -- else it ended; its key may live a moment longer
      texts[k] = s
      if size ~= SMALL then began = unpack('>I7', s, #s - 11) end
      if began > now then now = began end
    end
  end
end

local find
if heads then
  -- far is find for the entries i to hi of a long log, which were not read; hi is known to be
  -- right. Entries stand for more the older they are, so it guesses a place by the logarithm
  -- of its age, and reads 32 entries around it.
  local function far(k, total, i, hi, youngest, since, left)
    local wanted, guesses = left or now - since - 1, 4
    local function age(s, p)
      local time, sum = unpack('>I7I5', s, p)
      return since and now - time or (total - sum) % M
    end
    local oldest = age(heads[k], HEAD + 1)
    while true do
      local middle = floor((i + hi) / 2)
      if guesses > 0 and youngest > 0 and oldest > youngest then
        middle = hi - floor((hi - i) * math.log(wanted / youngest) / math.log(oldest / youngest))
        guesses = guesses - 1
      end
      local from = max(i - 1, min(middle, hi) - 16)
      local to = min(from + 32, hi)
      local s = call('GETRANGE', KEYS[k], HEAD + ENTRY * from, HEAD + ENTRY * to + 11)
      local old, young = age(s, 1), age(s, ENTRY * (to - from) + 1)
      if young > wanted then
        i, oldest = to + 1, young
      elseif old <= wanted and from >= i then
        hi, youngest = from, old
      else
        i, hi = from + 1, to
        while i < hi do
          middle = floor((i + hi) / 2)
          if age(s, ENTRY * (middle - from) + 1) > wanted then i = middle + 1 else hi = middle end
        end
        local before, time, sum = unpack('>I5I7I5', s, ENTRY * (i - from) - 4)
        return i, time, sum, before
      end
    end
  end

  -- find returns the first entry from i, at least 1, that is later than since or, without
  -- it, after which at most left was counted: its number, time and total, and the total
  -- before it; without such an entry only the number of entries.
  function find(k, count, total, i, since, left)
    local s, hi, oldest = texts[k], count, count - READ
    local place = #s + 1 - ENTRY * count
    if i <= oldest then
      local time, sum = unpack('>I7I5', s, ENTRY * oldest + place)
      sum = (total - sum) % M
      if since and time > since then return far(k, total, i, oldest, now - time, since) end
      if left and sum <= left then return far(k, total, i, oldest, sum, nil, left) end
      i = oldest + 1
    end
    if since then
      while i < hi do
        local middle = floor((i + hi) / 2)
        if unpack('>I7', s, ENTRY * middle + place) > since then hi = middle else i = middle + 1 end
      end
    else
      while i < hi do
        local middle = floor((i + hi) / 2)
        if (total - unpack('>I5', s, ENTRY * middle + place + 7)) % M <= left then
          hi = middle
        else
          i = middle + 1
        end
      end
    end
    if i == count then return i end
    local before, time, sum = unpack('>I5I7I5', s, ENTRY * i + place - 5)
    return i, time, sum, before
  end
end

local muldiv, roll
if string.byte(list) == 1 then
  -- muldiv returns a * b / d and the remainder: a and d up to 2^46, b below 2^42.
  function muldiv(a, b, d)
    local quotient, rest = 0, a * b
    if rest < 2^53 then
      quotient = floor(rest / d)
      return quotient, rest - quotient * d
    end
    rest = 0
    local scale = 2^36
    while scale >= 1 do
      local digit = floor(b / scale) -- of 6 bits, so that no number exceeds 2^53
      b = b - digit * scale
      rest = rest * 64 + a * digit
      local whole = floor(rest / d)
      quotient, rest, scale = quotient * 64 + whole, rest - whole * d, scale / 64
    end
    return quotient, rest
  end

  -- roll brings the small state s to now. It returns when the present window ends, and its
  -- first, start, previous, count and parts.
  function roll(s, kind, n, periods)
    local _, last, window, opened, start, previous, parts, count = unpack('>I1I7I6I7I7I5I6I5', s)
    local finish = 0
    if opened <= reset then opened, previous, count, parts = now, 0, 0, 0 end
    if kind == 2 then
      local drained, rest = muldiv(min(now - last, 2 * window), n, window)
      count, parts = count - drained, parts - rest
      if parts < 0 then count, parts = count - 1, parts + window end
      if count < 0 or now - last >= 2 * window then count, parts = 0, 0 end
    elseif kind == 1 then
      start = now - now % window
      finish = start + window
      if last < start - window then
        previous, count = 0, 0
      elseif last < start then
        previous, count = count, 0
      end
    else
      local length = window
      start = now - now % window
      if periods then
        local a, b, e, d = unpack('>I7I7I7I7', list, periods)
        if now < a then
          length = b - a
          start = a - math.ceil((a - now) / length) * length
        elseif now < b then
          start, length = a, b - a
        elseif now < e then
          start, length = b, e - b
        elseif now < d then
          start, length = e, d - e
        else
          length = d - e
          start = now - (now - d) % length
        end
      end
      finish = start + length
      if last < start then count = 0 end
    end
    return finish, opened, start, previous, count, parts
  end
end
