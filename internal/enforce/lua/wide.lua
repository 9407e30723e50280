-- Tail of the check if the call's route has limits on each caller or is restricted. It
-- takes the cost from the caller's limits and the route's, or from none. find.lua precedes
-- this text. All keys are in one slot.
--
-- KEYS[1…3]  see find.lua
-- KEYS[4]  the caller's state under the route
-- ARGV[1…4]  see find.lua
-- ARGV[5]  entry of the route's limits on each caller; empty for none
-- ARGV[6…8]  see find.lua
--
-- Returns what find.lua returns, but in place of 'D':
--   'W'  public; 2 bytes length and decision of the plan or override, empty if its mode
--        is off; decision of the route, empty without its limits
--   'O'  7 bytes now, public      both are empty
local function passes(reply)
  return byte(reply) % 2 == 1
end
local enforced, route = byte(entry) == 1, ARGV[5]
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
  local under, under_left = saved(KEYS[4])
  routed = step(KEYS[4], sub(route, 4), cost, 0)
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
    undo(KEYS[4], under, under_left)
  elseif byte(route) == 1 and not passes(routed) then
    if not denied and (off or passes(own)) then
      undo(key, before, left)
    end
  end
end
if own == '' and routed == '' then
  return 'O' .. pack('>I7', now) .. public
end
return 'W' .. public .. pack('>I2', #own) .. own .. routed
