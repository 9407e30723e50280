-- Functions of the scripts that settle. limiter.StepFunction precedes this text.

-- newer returns whether a bucket's copy of the plans is newer than a version of the
-- policy set.
local function newer(copy, version)
  local head = call('GETRANGE', copy, 0, 4)
  return #head == 5 and unpack('>I4', head, 2) > tonumber(version)
end

-- settle takes a difference from one state, or gives it back. Limits that count calls
-- keep theirs.
--
-- key         the state
-- prog        program of its limits
-- difference  cost; below 0 to give back
-- at          for a difference below 0: when it was taken, microseconds since 1970
-- forgive     whether only what fits is taken. Limits in shadow mode and limits that count
--             calls do not bound what fits. Otherwise all is taken, and may be owed
-- counted     program of limits that only count; or ''
--
-- Returns
--   4 bytes  cost taken; for a difference below 0: cost that the state may still count
--   2 bytes  length of what follows; 0 if nothing was taken
--   the decision of the step that took it
local function settle(key, prog, difference, at, forgive, counted)
  if difference == 0 then
    return pack('>I4I2', 0, 0)
  end
  if difference < 0 then
    local reply = step(key, prog, difference, at, counted, 0)
    return string.sub(reply, #reply - 3) .. '\0\0'
  end
  if forgive then
    local reply, limits, _, sections = look(key, prog, 0), string.byte(prog, 1, 3)
    for i = 1, limits do
      local number = string.byte(prog, 8 + 25 * sections + 14 * (i - 1)) % 64
      local remaining = unpack('>I4', reply, 30 * i - 21)
      if string.byte(prog, 4 + 25 * (number - 1)) < 8 then
        if remaining >= 2147483648 then remaining = 0 end
        difference = math.min(difference, remaining)
      end
    end
    if difference == 0 then return pack('>I4I2', 0, 0) end
  end
  local reply = step(key, prog, difference, -1, counted)
  return pack('>I4I2', difference, #reply) .. reply
end
