-- Part of the step: opens the state and evaluates every limit. Sets these locals:
-- parts     the parts of the program's sections, then those of counted's
-- of        each limit's part
-- allowed   whether every enforced limit admits the cost
-- results   for each limit six numbers: remaining cost (negative for what is owed), reset
--           and retry-after (us), the two numbers from which the reader computes when
--           remaining rises, and since when the limit counts every call (s)
-- reply     for a cost above an enforced limit: the whole reply
-- Returns the sections of a program as parts without counts.
local function sections_of(program)
  local of_limits, _, sections = byte(program, 1, 3)
  local at, list = PROGRAM_HEAD + 1 + SECTION * sections + LIMIT * of_limits, {}
  for i = 1, sections do
    local part = section_at(program, PROGRAM_HEAD + 1 + SECTION * (i - 1))
    if part.kind == FIXED and part.group > 0 then
      at = at + 1 + byte(program, at)
      part.program, part.shifts, part.shifts_at = program, byte(program, at), at + 1
      at = at + 1 + 10 * part.shifts
    end
    list[i] = part
  end
  return list
end

parts = sections_of(prog)
if counted ~= '' then
  -- The limits that only count join the others. Limits in shadow mode do not count here;
  -- their enforced twins follow.
  local list = sections_of(counted)
  for i = 1, #list do
    local part, same = list[i]
    for j = 1, #parts do
      if parts[j].id == part.id then same = parts[j] end
    end
    if not same and not part.shadow then
      parts[#parts + 1] = part
    elseif not part.shadow then
      same.requests = max(same.requests, part.requests)
      if part.kind <= ATTEMPTS then
        same.need_span = max(same.need_span, part.need_span)
        same.need_keep = max(same.need_keep, part.need_keep)
        same.need_width = max(same.need_width, part.need_width)
      end
    end
  end
end

local of, results, allowed = {}, {}, true
if not open() then -- a damaged state: begin without one
  s, big = '', false
  for i = 1, #parts do
    local part = parts[i]
    part.start, part.prev, part.cur, part.since = 0, 0, 0, 0
  end
  open()
end

-- Returns the index of the slot that must leave the window of a log so that at most some
-- calls remain in it; below 0 if no slot must leave.
local function deciding_slot(log, remaining)
  if log.deficits then return deciding_with_deficits(log, remaining) end
  local spare = remaining - log.fill
  return log.used - 1 - (spare >= 0 and floor(spare / log.group) + 1 or 0)
end

-- Evaluates limit i, and returns its six results.
local function evaluate(i)
  local n, number, window = unpack('>I4I1I6', prog, PROGRAM_HEAD + 1 + SECTION * count + LIMIT * (i - 1))
  local part = parts[number % 64]
  local kind, want = part.kind, part.calls and 1 or take
  of[i] = part
  local too_much = want > n
  if too_much then want = n end
  local left, reset, retry, next, second = n, 0, 0, 0, 0
  local from = now - window
  if kind <= ATTEMPTS then
    local used, fill, group, at = part.used, part.fill, part.group, part.at
    if used > 0 then
      local deciding = deciding_slot(part, n - want)
      local first = part.low
      if deciding >= 0 then
        local age = at - slot(part, deciding)
        if age < window then retry = window - age else first = max(first, deciding + 1) end
      end
      local since = at - window
      if part.newest > since then
        first = first_after(part, since, first)
        left = n - fill - (used - 1 - first) * group
        if part.deficits then left = left + missing_after(part, since) end
        reset = part.newest - since
        if left >= 0 then
          next = slot(part, first) - since
        else
          if kind == ATTEMPTS then left = 0 end
          next = slot(part, deciding_slot(part, n - 1)) - since
        end
        second = next % 4294967296
        next = (next - second) / 4294967296
      end
    end
  elseif kind == COUNTER then
    local span, elapsed = part.window, now - part.start
    left = n - estimate(part)
    if want > left then
      if part.cur + want <= n then
        retry = span - muldiv(n - part.cur - want, span, part.prev) - elapsed
      else
        retry = 2 * span - muldiv(n - want, span, part.cur) - elapsed
      end
    end
    if part.cur > 0 then reset = 2 * span - elapsed elseif part.prev > 0 then reset = span - elapsed end
    next, second = part.prev, part.cur
    from = part.start
  elseif kind == BUCKET then
    local whole, part_of = debt(part)
    left = tokens(part, whole, part_of)
    reset, next = part_of > 0 and whole + 1 or whole, part_of
    whole, part_of = debt_after(part, whole, part_of, want)
    retry = (part_of > 0 and whole + 1 or whole) - part.window
  else
    left = n - part.cur
    if part.cur > 0 then reset = part.ends - now end
    if want > left then retry = part.ends - now end
    from = part.start
  end
  if left < -n then left = -n end
  if retry < 0 then retry = 0 end
  if too_much then retry = 31622400000000 end
  return left, reset, retry, next, second, part.since > floor(from / 1000000) and part.since or 0
end

for i = 1, limits do
  local n, number = unpack('>I4I1', prog, PROGRAM_HEAD + 1 + SECTION * count + LIMIT * (i - 1))
  local part = parts[number % 64]
  if not part.shadow and not part.calls and take > n and taken ~= -1 then
    reply = pack('>I1I7', TOO_HIGH, now)
    break
  end
end
if not reply then
  for i = 1, limits do
    local k = 6 * i - 5
    results[k], results[k + 1], results[k + 2], results[k + 3], results[k + 4], results[k + 5] = evaluate(i)
    if results[k + 2] > 0 and not of[i].shadow then allowed = false end
  end
end
