-- Tail of the check if the policy set has bans, or if the call's route has
-- limits on each caller or is restricted. It takes the cost from the caller's limits and
-- the route's, or from none, and bans callers that keep calling. find.lua precedes this
-- text. All keys are in one slot. Integers are big-endian, times microseconds since 1970.
--
-- KEYS[1…3]  see find.lua
-- KEYS[4]  the caller's ban: 1 byte level, 7 bytes until
-- KEYS[5]  the caller's denials that count towards the next ban
-- KEYS[6]  the caller's state under the route
-- ARGV[1…4]  see find.lua
-- ARGV[5]  program that counts denials; empty without bans
-- ARGV[6]  length of the first ban, microseconds; empty without bans
-- ARGV[7]  length of the longest ban, microseconds; empty without bans
-- ARGV[8]  entry of the route's limits on each caller; empty for none
-- ARGV[9…11]  see find.lua
--
-- Returns what find.lua returns, but in place of 'D':
--   'W'  public; 2 bytes length and decision of the plan or override, empty if its mode
--        is off; decision of the route, empty without its limits
--   'O'  7 bytes now, public      both are empty
local function passes(reply)
  return byte(reply) % 2 == 1
end
local level, till = 0, 0
local ban = ARGV[5] ~= '' and call('GET', KEYS[4])
if ban then
  level, till = unpack('>I1I7', ban)
  if now < till then
    return 'B' .. sub(ban, 2, 8) .. pack('>I7', now) .. public
  end
end
local enforced, route = byte(entry) == 1, ARGV[8]
-- saved returns a state and its time to live in milliseconds, before a step that may be
-- undone. The step may change both.
local function saved(name)
  local value = call('GET', name)
  return value, value and call('PTTL', name)
end
local before, left
if route ~= '' then before, left = saved(key) end
local own, routed = '', ''
if not off or counted ~= '' then own = step(key, prog, cost, 0, counted) end
if off then own = '' end
local denied = enforced and not passes(own)
if route ~= '' then
  local under, under_left = saved(KEYS[6])
  routed = step(KEYS[6], sub(route, 4), cost, 0)
  local function undo(name, old, life)
    if not old then
      call('DEL', name)
    elseif life >= 0 then -- 0 if less than a millisecond is left
      call('SET', name, old, 'PX', math.max(life, 1))
    else
      call('SET', name, old)
    end
  end
  if denied and passes(routed) then
    undo(KEYS[6], under, under_left)
  elseif byte(route) == 1 and not passes(routed) then
    if not denied and (off or passes(own)) then
      undo(key, before, left)
    end
    denied = true
  end
end
if denied and ARGV[5] ~= '' and cost > 0 and not passes(step(KEYS[5], ARGV[5], 1, 0)) then
  level = math.min(level + 1, 60)
  local longest = tonumber(ARGV[7])
  local length = math.min(tonumber(ARGV[6]) * 2 ^ (level - 1), longest)
  ban = pack('>I1I7', level, now + length)
  call('SET', KEYS[4], ban, 'PX', string.format('%.0f', math.ceil((length + longest) / 1000)))
  call('DEL', KEYS[5])
  return 'B' .. sub(ban, 2, 8) .. pack('>I7', now) .. public
end
if own == '' and routed == '' then
  return 'O' .. pack('>I7', now) .. public
end
return 'W' .. public .. pack('>I2', #own) .. own .. routed
