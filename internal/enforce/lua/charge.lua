-- Functions of the scripts that settle. limiter.StepFunction precedes this text.

-- newer returns whether a bucket's copy of the plans is newer than a version of the
-- policy set.
local function newer(copy, version)
  local head = call('GETRANGE', copy, 0, 4)
  return #head == 5 and unpack('>I4', head, 2) > tonumber(version)
end

-- settle takes a difference from one state, or as much of it as fits. Limits in shadow
-- mode do not bound what fits. A difference below 0 is given back.
--
-- key         the state
-- prog        program of its limits
-- difference  calls; below 0 to give back
-- at          for a difference below 0: when it was taken, microseconds since 1970
--
-- Returns
--   4 bytes  calls taken; for a difference below 0: calls that the state may still count
--   2 bytes  length of what follows; 0 if nothing was taken
--   the decision of the step that took them
local function settle(key, prog, difference, at)
  if difference == 0 then
    return pack('>I4I2', 0, 0)
  end
  if difference < 0 then
    local reply = step(key, prog, difference, at)
    return string.sub(reply, #reply - 3) .. '\0\0'
  end
  local look = step(key, prog, 0, 0)
  local fits, entries = difference, 4 + 12 * string.byte(prog, 4)
  for i = 1, string.byte(prog) do -- 26 bytes each: the reply to cost 0 is never the short form
    local number = string.byte(prog, entries + 14 * i - 9) % 64
    local shadow = string.byte(prog, 12 * number - 7) > 8
    if not shadow then fits = math.min(fits, (unpack('>I4', look, 26 * i - 17))) end
  end
  local taken = fits > 0 and step(key, prog, fits, 0) or ''
  if taken == '' or string.byte(taken) % 2 == 0 then
    return pack('>I4I2', 0, 0)
  end
  return pack('>I4I2', fits, #taken) .. taken
end
