-- Functions of the scripts that settle. limiter.StepFunction precedes this text.

-- newer returns whether a bucket's copy of the plans is newer than a version of the
-- policy set.
local function newer(copy, version)
  local head = call('GETRANGE', copy, 0, 4)
  return #head == 5 and unpack('>I4', head, 2) > tonumber(version)
end

-- settle takes a difference from one state, also what does not fit, or gives it back. Limits that count calls
-- keep theirs.
--
-- key         the state
-- prog        program of its limits
-- difference  cost; below 0 to give back
-- at          for a difference below 0: when it was taken, microseconds since 1970
-- counted     program of limits that only count; or ''
--
-- Returns
--   4 bytes  cost taken; for a difference below 0: cost that the state may still count
--   2 bytes  length of what follows; 0 if nothing was taken
--   the decision of the step that took it
local function settle(key, prog, difference, at, counted)
  if difference == 0 then
    return pack('>I4I2', 0, 0)
  end
  if difference < 0 then
    local reply = step(key, prog, difference, at, counted, 0)
    return string.sub(reply, #reply - 3) .. '\0\0'
  end
  local reply = step(key, prog, difference, -1, counted)
  return pack('>I4I2', difference, #reply) .. reply
end
