-- Part of the step: gives a cost and calls back. refund.go and bucket.go explain it.
-- Sets unreturned: the part of a cost that a part may still count, the largest over all.

-- Returns whether a part began after the second of the call.
local function newer(part) return part.since > 0 and taken < (part.since - 1) * 1000000 end

-- Removes number slots from a log, from slot first on.
local function cut(log, first, number)
  log.bytes = sub(log.bytes, 1, first * log.width) .. sub(log.bytes, (first + number) * log.width + 1)
  log.used = log.used - number
  log.fresh = log.used
  if log.used > 0 then log.newest = slot(log, log.used - 1) end
end

-- Merges the two deficits of a log with the nearest times.
local function merge_deficits(log, deficits)
  local near = 1
  for i = 2, #deficits - 1 do
    if deficits[i + 1].at - deficits[i].at < deficits[near + 1].at - deficits[near].at then near = i end
  end
  local missing = deficits[near].calls + deficits[near + 1].calls
  if missing < log.group then
    deficits[near].calls = missing
    table.remove(deficits, near + 1)
    return
  end
  cut(log, first_after(log, deficits[near].at - 1, 0), 1)
  deficits[near + 1].calls = missing - log.group
  if missing == log.group then table.remove(deficits, near + 1) end
  table.remove(deficits, near)
end

-- Gives back calls of a log with grouped slots, at most a number. Returns what
-- give_back_calls returns.
local function give_back_groups(log, number, most)
  local group, last = log.group, log.used - 1
  local first = first_after(log, taken - 1, 0)
  if first > last then return 0 end
  local rest, finish = calls_after(log, taken - 1), first
  if rest > number then rest = number end
  local still = max(0, rest - most)
  rest = rest - still
  local deficits, ahead = {}, {}
  for _, deficit in ipairs(log.deficits or {}) do
    if deficit.at < taken then
      deficits[#deficits + 1] = deficit
    elseif #ahead > 0 then
      ahead[#ahead + 1] = deficit
    else
      local behind = first_after(log, deficit.at, 0)
      local whole = (behind - finish) * group - deficit.calls
      if rest < whole then
        ahead[1] = deficit
      else
        rest, finish = rest - whole, behind
      end
    end
  end
  local slots = floor(rest / group)
  finish, rest = finish + slots, rest - slots * group
  if finish > last or (finish == last and rest == log.fill) then
    finish = last + 1
  elseif #ahead == 0 and slot(log, finish) == slot(log, last) then
    local left = (last - finish) * group + log.fill - rest
    finish = last + 1 - ceil(left / group)
    log.fill = left - (last - finish) * group
  elseif rest > 0 and #ahead > 0 and ahead[1].at == slot(log, finish) then
    rest = rest + ahead[1].calls
    if rest >= group then finish, rest = finish + 1, rest - group end
    local at = table.remove(ahead, 1).at
    if rest > 0 then deficits[#deficits + 1] = {at = at, calls = rest} end
  elseif rest > 0 then
    deficits[#deficits + 1] = {at = slot(log, finish), calls = rest}
  end
  for i = 1, #ahead do deficits[#deficits + 1] = ahead[i] end
  cut(log, first, finish - first)
  if finish > last then
    log.fill = group
    local latest = deficits[#deficits]
    if latest and latest.at == slot(log, first - 1) then
      log.fill = group - latest.calls
      deficits[#deficits] = nil
    end
  end
  if #deficits > 64 then merge_deficits(log, deficits) end
  log.deficits = #deficits > 0 and deficits or nil
  return still
end

-- Gives back calls of a log. Returns how many of them the log may still count.
local function give_back_calls(log, number)
  local clock = log.at
  if log.used == 0 then return 0 end
  trim(log, log.kind == LOG and clock - log.span or 0)
  if taken <= now - log.span then return 0 end
  if log.kind == ATTEMPTS or taken <= clock - log.span or (log.group > 1 and newer(log)) then
    local still = calls_after(log, max(taken - 1, clock - log.span))
    return still < number and still or number
  end
  local most = number
  if clock - log.dropped * 1000000 < log.span then
    most = max(0, calls_after(log, 0) - (log.keep - 1) / 2 * log.group)
    if most > number then most = number end
  end
  if log.group > 1 then return give_back_groups(log, number, most) end
  local first, finish = first_after(log, taken - 1, 0), first_after(log, taken + log.offset, 0)
  local given = finish - first
  if given > most then given = most end
  cut(log, first, given)
  local later = log.used - first
  return number - given < later and number - given or later
end

-- Gives back the debt of calls that cannot have drained since, first in calls that the
-- bucket dropped. Returns for how many of them the bucket may still have debt.
local function give_back_debt(bucket, number)
  local whole, part = debt(bucket)
  if newer(bucket) then
    local still = owed_calls(bucket, whole, part)
    return still < number and still or number
  end
  if bucket.cur > 0 and taken <= now and whole + part > 0 then
    local drained = now - taken
    if drained > 2 * bucket.window then drained = 2 * bucket.window end
    local dropped = max(0, number - owed_calls(bucket, drained, 0))
    if dropped > bucket.cur then dropped = bucket.cur end
    bucket.cur, number = bucket.cur - dropped, number - dropped
  end
  if number > 4 * bucket.group then number = 4 * bucket.group end
  local most, most_part = muldiv(number, bucket.window, bucket.group)
  local given, given_part = most - (now - taken), most_part
  if given < 0 or taken > now or bucket.cur > 0 then given, given_part = 0, 0 end
  if whole < most or (whole == most and part < most_part) then most, most_part = whole, part end
  if whole < given or (whole == given and part < given_part) then given, given_part = whole, part end
  whole, part = whole - given, part - given_part
  if part < 0 then whole, part = whole - 1, part + bucket.group end
  bucket.start, bucket.prev = now + whole, part
  most, most_part = most - given, most_part - given_part
  if most_part < 0 then most, most_part = most - 1, most_part + bucket.group end
  return owed_calls(bucket, most, most_part)
end

-- Gives back calls of a part. Returns how many of them the part may still count.
local function give_back(part, number)
  if part.kind <= ATTEMPTS then return give_back_calls(part, number) end
  if part.kind == BUCKET then return give_back_debt(part, number) end
  local ends = part.kind == FIXED and part.ends or part.start + part.window
  local began = part.kind == FIXED and part.start or part.start - part.window
  if taken >= ends -- the clock stepped back: the call's window is unknown
    or (taken >= began and newer(part)) then
    local still = part.cur + part.prev
    return still < number and still or number
  elseif taken >= part.start then
    part.cur = max(part.cur - number, 0)
  elseif part.kind == COUNTER and taken >= part.start - part.window then
    part.prev = max(part.prev - number, 0)
  end
  return 0
end

if cost < 0 and not reply then
  define_rare()
  local spared = {}
  for i = 1, limits do
    local number = byte(prog, PROGRAM_HEAD + 5 + SECTION * count + LIMIT * (i - 1))
    if number >= 64 then spared[of[i]] = true end
  end
  for i = 1, #parts do
    local part = parts[i]
    local number = part.calls and calls or -cost
    if number > 0 and not spared[part] then unreturned = max(unreturned, give_back(part, number)) end
  end
  allowed = true
  for i = 1, limits do
    local k = 6 * i - 5
    results[k], results[k + 1], results[k + 2], results[k + 3], results[k + 4] = evaluate(i)
    if results[k + 2] > 0 and not of[i].shadow then allowed = false end
  end
  write_all()
end
