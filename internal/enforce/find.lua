-- Head of the scripts of a check: finds the subject, its newest limits, and whether the
-- caller knows the newest Set. Sets the locals that a step needs, and `public`, with
-- which the reply begins. KEYS[1] the subject's record, KEYS[2] its state, KEYS[3] the
-- bucket's copy of the plans; all in one slot ARGV[1] the 32-byte hash of the secret;
-- empty for a caller that others vouch for (a JWT, an address), who may have no record
-- ARGV[2] the cost, 1 to 1e9; ARGV[3] the version of the Set that the caller knows;
-- ARGV[4] the plan's number for a caller without one of its own ARGV[5] -1 when some of
-- the cost may be given back, else 0 Returns nil when no such caller may call; 'S' and 4
-- bytes version when the Set is newer, or none was ever saved (0); 'B', 7 bytes time, 7
-- bytes now and `public` when the caller is banned until then; 'O', 7 bytes now and
-- `public` when its mode is off, unless wide.lua follows; else 'D', `public`, and the
-- encoded decision. `public` is 4 bytes version of the copy, then of the record
-- (record.go) its three times, version, plan, end of the override, three lengths and
-- name; then 1 byte, 1 when the limits are an override's; then their entry.
local sub, byte = string.sub, string.byte
local copy = call('GETRANGE', KEYS[3], 0, 1023)
if byte(copy, 1) ~= 1 then
  return 'S\0\0\0\0'
end
if unpack('>I4', copy, 2) > tonumber(ARGV[3]) then
  return 'S' .. sub(copy, 2, 5)
end
local record = call('GET', KEYS[1])
local plan, about, entry, source
if record then
  if byte(record, 1) ~= 2 then
    return redis.error_reply('ERR the record was written by another version of Tidegate: delete the key or save it again')
  end
  local hash = ARGV[1]
  if hash == '' then
    if byte(record, 2) ~= 2 then
      return false
    end
  elseif byte(record, 2) ~= 1 or (sub(record, 3, 34) ~= hash and (sub(record, 35, 66) ~= hash or now >= unpack('>I7', record, 67))) then
    return false
  end
  local expires, banned, _, number, till, name, over = unpack('>I7I7I4I2I7I2I2', record, 74)
  if expires ~= 0 and now >= expires then
    return false
  end
  about = sub(record, 67, 106 + name)
  if over > 0 and (till == 0 or now < till) then
    entry, source = sub(record, 107 + name, 106 + name + over), '\1'
  end
  if banned > now then
    return 'B' .. sub(record, 81, 87) .. pack('>I7', now) .. sub(copy, 2, 5) .. about .. '\0\1\0\0'
  end
  plan = number
elseif ARGV[1] ~= '' then
  return false
else
  about = string.rep('\0', 25) .. pack('>I2', tonumber(ARGV[4])) .. string.rep('\0', 13)
end
if not entry then
  if not plan or plan == 0 then
    plan = tonumber(ARGV[4])
  end
  if plan < 1 or plan > unpack('>I2', copy, 6) then
    return redis.error_reply('ERR plan ' .. plan .. ' does not exist')
  end
  local at, length
  if 7 + 6 * plan <= #copy then
    at, length = unpack('>I4I2', copy, 2 + 6 * plan)
  else
    at, length = unpack('>I4I2', call('GETRANGE', KEYS[3], 1 + 6 * plan, 6 + 6 * plan))
  end
  if length == 0 then
    return redis.error_reply('ERR plan ' .. plan .. ' does not exist')
  end
  entry = at + length <= #copy and sub(copy, at + 1, at + length) or call('GETRANGE', KEYS[3], at, at + length - 1)
  source = '\0'
end
local ends = 3 + unpack('>I2', entry, 2)
local public = sub(copy, 2, 5) .. about .. source .. sub(entry, 1, ends)
if byte(entry, 1) == 3 and not KEYS[4] then
  return 'O' .. pack('>I7', now) .. public
end
local key, cost, refund = KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[5])
local prog = sub(entry, 4, ends)
