-- Part of the general step: for a negative cost, refunds -cost, which was taken at the
-- time refund (us since 1970). log.go, bucket.go and model.go explain it. readstate.lua
-- describes the input and output of the step.
--
-- Sets the local unreturned: the part of the cost that a section may still count, the
-- largest over all sections. Sets must_write for a refund.

-- Removes count slots from a log, from slot from on.
local function cut(log, from, count)
  if log.times then
    local times = {}
    for i = 1, #log.times do
      if i <= from or i > from + count then times[#times + 1] = log.times[i] end
    end
    log.times = times
  else
    log.bytes = sub(log.bytes, 1, from * log.width) .. sub(log.bytes, (from + count) * log.width + 1)
  end
  log.used = log.used - count
  log.fresh = log.used
end

-- Merges the two deficits of a log with the nearest times.
local function merge_deficits(log)
  local d, near = log.deficits, 1
  for i = 2, #d - 1 do
    if d[i + 1].at - d[i].at < d[near + 1].at - d[near].at then near = i end
  end
  local calls = d[near].calls + d[near + 1].calls
  if calls < log.group then
    d[near].calls = calls
    table.remove(d, near + 1)
    return
  end
  cut(log, first_after(log, d[near].at - 1), 1)
  d[near + 1].calls = calls - log.group
  if calls == log.group then table.remove(d, near + 1) end
  table.remove(d, near)
end

-- Gives back calls of a log with grouped slots. Returns how many of them the log still
-- counts.
local function give_back_groups(log, calls)
  local group, last = log.group, log.used - 1
  local first = first_after(log, refund - 1)
  if first > last then return 0 end
  local rest, finish, held = math.min(calls, calls_after(log, refund - 1)), first, 0
  local deficits, ahead = {}, {}
  for i = 1, #log.deficits do
    local d = log.deficits[i]
    if d.at < refund then
      deficits[#deficits + 1] = d
    else
      if #ahead == 0 then
        local behind = first_after(log, d.at)
        local whole = (behind - finish) * group - d.calls
        if rest < whole then
          ahead[1] = d
        else
          rest, finish = rest - whole, behind
        end
      else
        ahead[#ahead + 1] = d
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
  elseif rest > 0 and #sections == 8 then
    held = rest
  elseif rest > 0 then
    deficits[#deficits + 1] = {at = slot(log, finish), calls = rest}
  end
  for i = 1, #ahead do deficits[#deficits + 1] = ahead[i] end
  log.deficits = deficits
  cut(log, first, finish - first)
  if finish > last then
    log.fill = group
    local latest = deficits[#deficits]
    if latest and latest.at == slot(log, first - 1) then
      log.fill = group - latest.calls
      deficits[#deficits] = nil
    end
  end
  if #deficits > 64 then merge_deficits(log) end
  return held
end

-- Gives back calls of a log. Returns how many of them the log may still count.
local function give_back_calls(log, calls)
  local clock = now + log.offset
  if log.used == 0 or refund <= now - log.span then return 0 end
  if log.kind == ATTEMPTS or refund <= clock - log.span then
    return math.min(calls, calls_after(log, math.max(refund - 1, clock - log.span)))
  end
  if not log.times then
    local from, to = log.slots_at, log.slots_at + log.used * log.width
    log.bytes = big and call('GETRANGE', key, from, to - 1) or sub(s, from + 1, to)
  end
  if log.group > 1 then
    local deficits = {}
    for i = 1, #log.deficits do
      if log.deficits[i].at > clock - log.span then deficits[#deficits + 1] = log.deficits[i] end
    end
    log.deficits = deficits
    return give_back_groups(log, calls)
  end
  local first, finish = first_after(log, refund - 1), first_after(log, refund + log.offset)
  local given, later = math.min(calls, finish - first), log.used - finish
  cut(log, first, given)
  return math.min(calls - given, later)
end

-- Subtracts a refunded debt (microseconds, parts) from the debts that a bucket had after
-- the refunded call.
local function lower_valleys(bucket, whole, part)
  local kept, valleys = {}, bucket.valleys
  local least
  for i = #valleys, 1, -1 do
    local v = valleys[i]
    if v.at > refund and owes_less(whole, part, v.whole, v.part) then
      v.whole, v.part = v.whole - whole, v.part - part
      if v.part < 0 then v.whole, v.part = v.whole - 1, v.part + bucket.requests end
    elseif v.at > refund then
      v.whole, v.part = 0, 0
    end
    if not least or owes_less(v.whole, v.part, least.whole, least.part) then
      table.insert(kept, 1, v)
      least = v
    end
  end
  bucket.valleys = kept
end

-- Gives back the debt of calls. Returns for how many of them the bucket may still have
-- debt.
local function give_back_debt(bucket, calls)
  if bucket.full and refund < bucket.since then return 0 end -- the bucket was full after the call
  local whole, part = debt(bucket)
  local most, most_part = muldiv(calls, bucket.span, bucket.requests)
  local still, still_part = most - (now - refund), most_part -- debt that cannot have drained since the call
  if still < 0 or refund > now then still, still_part = 0, 0 end
  if owes_less(whole, part, most, most_part) then most, most_part = whole, part end
  local given, given_part = most, most_part
  local exact = bucket.since and refund >= bucket.since and refund <= now
  if exact then
    still, still_part = most, most_part
    for i = 1, #bucket.valleys do
      local v = bucket.valleys[i]
      if v.at > refund then
        still, still_part = v.whole, v.part
        exact = not v.merged or not owes_less(still, still_part, most, most_part)
        break
      end
    end
  end
  if owes_less(still, still_part, given, given_part) then given, given_part = still, still_part end
  if given + given_part > 0 then
    whole, part = whole - given, part - given_part
    if part < 0 then whole, part = whole - 1, part + bucket.requests end
    bucket.start, bucket.prev, bucket.cur = now + whole, part, bucket.requests
    lower_valleys(bucket, given, given_part)
    -- A full bucket has no debt of any call.
    if whole + part == 0 then bucket.since, bucket.full, bucket.valleys = nil, false, {} end
  end
  if exact then return 0 end
  most, most_part = most - given, most_part - given_part
  if most_part < 0 then most, most_part = most - 1, most_part + bucket.requests end
  return owed_calls(most, most_part, bucket.requests, bucket.span)
end

-- Gives back calls of a section. Returns how many of them the section may still count.
local function give_back(section, calls)
  if section.kind <= ATTEMPTS then
    return give_back_calls(section, calls)
  elseif section.kind == BUCKET then
    return give_back_debt(section, calls)
  elseif refund >= section.ends then
    return math.min(calls, section.cur + section.prev) -- the clock stepped back: the call's window is unknown
  elseif refund >= section.start then
    section.cur = section.cur - math.min(section.cur, calls)
  elseif section.kind == COUNTER and refund >= section.start - section.span then
    section.prev = section.prev - math.min(section.prev, calls)
  end
  return 0
end

local unreturned = 0
if cost < 0 then
  for i = 1, #sections do
    if not sections[i].spared then unreturned = math.max(unreturned, give_back(sections[i], -cost)) end
  end
  must_write = true
end

