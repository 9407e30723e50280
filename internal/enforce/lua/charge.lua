-- Functions of the scripts that settle. limiter.StepFunction stands before this text.

-- Returns whether a bucket's copy of the plans is newer than a version of the policy set.
local function newer(copy, version)
  local head = call('GETRANGE', copy, 0, 4)
  return #head == 5 and unpack('>I4', head, 2) > tonumber(version)
end

-- Takes a difference from one state; below 0 it gives back what was taken at a time, in
-- microseconds since 1970. Returns 4 bytes, the calls taken: all, or as many as fit; and
-- when there are any 2 bytes length and the reply of the step that took them, else 2 zero
-- bytes. Of a difference below 0 it returns the calls that the state may still hold and
-- did not give back, and 2 zero bytes. Limits in shadow mode bound nothing: one takes
-- what fits the others if it fits it.
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
  for i = 1, string.byte(prog) do -- 26 bytes each: a look is never answered in short
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
