-- Head of the scripts of a check: finds the caller and its newest limits, and ends the
-- script if the caller may not call. It sets the locals that a step needs (open.lua of
-- package limiter), and public, which begins the reply. All keys are in one slot.
-- Integers are big-endian, times microseconds since 1970.
--
-- KEYS[1]  the caller's record
-- KEYS[2]  the caller's state
-- KEYS[3]  the bucket's copy of the plans
-- ARGV[1]  hash of the secret, 32 bytes; empty for a caller that a JWT or an address
--          identifies, which may have no record
-- ARGV[2]  cost, 0 to 1e9 calls
-- ARGV[3]  version of the policy set that the environment knows
-- ARGV[4]  number of the plan for a caller whose record names none
--
-- What the environment remembers of the caller; absent if it remembers nothing, and with
-- wide.lua:
-- ARGV[5]  fields of the record from its times to its name, and the group if there is one
-- ARGV[6]  program of the plan
-- ARGV[7]  first 5 bytes of the copy: format and version
-- ARGV[8]  when the key expires; 2^53 - 1 for never
--
-- Only with wide.lua, if a list restricts the routes of some plan or of the key:
-- ARGV[6]  numbers of the plans that do not open the route, 2 bytes each
-- ARGV[7]  description in the caller's record, with its list; empty if not known
-- ARGV[8]  1 if that list opens the route
--
-- Returns a string:
--   'N'  1 byte                  the caller may not call: 'U' unknown key or wrong
--                                secret, 'R' revoked, 'X' expired, 'O' the previous
--                                secret after its grace, 'A' the list of the key or of
--                                its plan does not open the route
--   'S'  4 bytes version         a newer policy set is in force; 0 if the bucket has no
--                                copy
--   'A'  4 bytes version of the record, description     the key has a list, and ARGV[7]
--                                is not its description: repeat the check with it
--   'B'  7 bytes until, 7 bytes now, public     the caller is banned
--   'O'  7 bytes now, public     the mode of the limits is off (with wide.lua: see there)
--   'K'  the decision            ARGV[5] to ARGV[8] still apply
--   'D'  public, the decision    otherwise
--
-- public is
--   4 bytes   version of the copy
--   fields of the record (package policyset), zeros without one: three times, version,
--             plan, end of the override, three lengths, name
--   1 byte    1 if the limits are an override's, 0 if the plan's; plus 2 if the secret is
--             the previous one; plus 4 if the key is in a group, whose name follows after
--             1 byte length; plus 8 if the override is the group's, whose end then
--             replaces that in the record
--   entry     of the limits: mode, length, program
local sub, byte = string.sub, string.byte
local key, cost, calls, taken, counted = KEYS[2], tonumber(ARGV[2]), 0, 0, ''
local prog, public, entry, source, ends, off
local wide = KEYS[4]
local known = not wide and ARGV[5]
if known and call('GETRANGE', KEYS[3], 0, 4) == ARGV[7] and now < tonumber(ARGV[8]) then
  local record = call('GETRANGE', KEYS[1], 0, 65 + #known)
  if sub(record, 67) == known and sub(record, 3, 34) == ARGV[1] and byte(record) == 2
    and byte(record, 2) == 1 then
    prog = ARGV[6]
  end
end
if not prog then
  local copy = call('GETRANGE', KEYS[3], 0, 1023)
  if byte(copy, 1) ~= 1 then
    return 'S\0\0\0\0'
  end
  if unpack('>I4', copy, 2) > tonumber(ARGV[3]) then
    return 'S' .. sub(copy, 2, 5)
  end
  local record = call('GET', KEYS[1])
  local plan, about
  local marks, group = 0, ''
  if record then
    if byte(record, 1) ~= 2 then
      return redis.error_reply('TIDEGATE the record was written by another version of Tidegate: '
        .. 'delete the key or save it again')
    end
    local hash = ARGV[1]
    local status = byte(record, 2)
    local lists = status == 3
    if lists then
      status = 1
    end
    if hash == '' then
      if status ~= 2 then
        return 'NU'
      end
    elseif status ~= 1 or sub(record, 3, 34) ~= hash then
      if status == 2 or (sub(record, 3, 34) ~= hash and sub(record, 35, 66) ~= hash) then
        return 'NU'
      elseif status ~= 1 then
        return 'NR'
      elseif now >= unpack('>I7', record, 67) then
        return 'NO'
      end
      marks = 2
    end
    local expires, banned, _, number, till, name, over = unpack('>I7I7I4I2I7I2I2', record, 74)
    if expires ~= 0 and now >= expires then
      return 'NX'
    end
    local at = 107 + name + over
    if lists then
      local described = sub(record, at)
      if not wide or described ~= ARGV[7] then
        return 'A' .. sub(record, 88, 91) .. described
      elseif ARGV[8] ~= '1' then
        return 'NA'
      end
    end
    if byte(record, at + 2) == 103 then -- {"group":"
      group = sub(record, at + 10, string.find(record, '"', at + 10, true) - 1)
      marks, group = marks + 4, string.char(#group) .. group
    end
    about = sub(record, 67, 106 + name)
    if over > 0 and (till == 0 or now < till) then
      entry, source = sub(record, 107 + name, 106 + name + over), '\1'
    end
    if banned > now then
      return 'B' .. sub(record, 81, 87) .. pack('>I7', now) .. sub(copy, 2, 5) .. about
        .. string.char(marks) .. group .. '\1\0\0'
    end
    plan = number
    if group ~= '' and not entry then
      local list = call('GETRANGE', KEYS[3], unpack('>I4', copy, 8), -1)
      local _, found = string.find(list, '\0' .. sub(group, 2) .. '=', 1, true)
      if found then
        local start, length = string.match(list, '^(%d+),(%d+)', found + 1)
        local override = call('GETRANGE', KEYS[3], start, start + length - 1)
        till = unpack('>I7', override)
        if till == 0 or now < till then
          entry, source = sub(override, 8), '\9'
          about = sub(about, 1, 27) .. sub(override, 1, 7) .. sub(about, 35)
        end
      end
    end
  elseif ARGV[1] ~= '' then
    return 'NU'
  else
    about = string.rep('\0', 25) .. pack('>I2', tonumber(ARGV[4])) .. string.rep('\0', 13)
  end
  if not plan or plan == 0 then
    plan = tonumber(ARGV[4])
  end
  for i = 1, wide and #(ARGV[6] or '') or 0, 2 do
    if unpack('>I2', ARGV[6], i) == plan then
      return 'NA'
    end
  end
  local of_plan
  if plan >= 1 and plan <= unpack('>I2', copy, 6) then
    local at, length
    if 11 + 6 * plan <= #copy then
      at, length = unpack('>I4I2', copy, 6 + 6 * plan)
    else
      at, length = unpack('>I4I2', call('GETRANGE', KEYS[3], 5 + 6 * plan, 10 + 6 * plan))
    end
    if length > 0 then
      of_plan = at + length <= #copy and sub(copy, at + 1, at + length) or call('GETRANGE', KEYS[3], at,
        at + length - 1)
    end
  end
  if not entry then
    if not of_plan then
      return redis.error_reply('TIDEGATE plan ' .. plan .. ' does not exist')
    end
    entry, source = of_plan, '\0'
  elseif of_plan then -- the limits of the plan go on counting
    counted = sub(of_plan, 4, 3 + unpack('>I2', of_plan, 2))
  end
  ends = 3 + unpack('>I2', entry, 2)
  public = sub(copy, 2, 5) .. about .. string.char(byte(source) + marks) .. group .. sub(entry, 1, ends)
  off = byte(entry, 1) == 3
  if off and counted == '' and not wide then
    return 'O' .. pack('>I7', now) .. public
  end
  prog = off and '\0\3\0' or sub(entry, 4, ends) -- without limits, a step only counts
end
