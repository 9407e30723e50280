-- Tail of the check for a Set with bans, candidates, or limits of a route on each caller: several steps on one subject, all or nothing.
-- KEYS[4] the subject's ban, KEYS[5] its denials, KEYS[6] its state under the route, KEYS[7] its state under the candidate
-- ARGV[5] the program that counts denials, empty without bans; ARGV[6] and ARGV[7] first and longest ban, microseconds; ARGV[8] entry of the route's
-- limits, empty without
-- Returns as find.lua does, but 'W', `public`, and 2 bytes length and decision of the plan, the same of the route (empty without), then the
-- candidate's decision, which is held against every call as if it were in force.
local function passes(reply)
  return byte(reply) % 2 == 1
end
local level, till = 0, 0
local ban = ARGV[5] ~= '' and call('GET', KEYS[4])
if ban then
  level, till = unpack('>I1I7', ban)
  if now < till then
    return 'B' .. sub(ban, 2, 8) .. public
  end
end
local enforced, route = byte(entry) == 1, ARGV[8]
local before = route ~= '' and call('GET', key)
local own, routed, trial = step(key, prog, cost, refund), '', ''
local denied = enforced and not passes(own)
if route ~= '' then
  local under = call('GET', KEYS[6])
  routed = step(KEYS[6], sub(route, 4), cost, 0)
  local function undo(name, old)
    if old then
      call('SET', name, old, 'KEEPTTL')
    else
      call('DEL', name)
    end
  end
  if denied and passes(routed) then
    undo(KEYS[6], under)
  elseif byte(route) == 1 and not passes(routed) then
    if not denied and passes(own) then
      undo(key, before)
    end
    denied = true
  end
end
if source == '\0' and #entry > ends then
  trial = step(KEYS[7], sub(entry, ends + 4), cost, 0)
end
if denied and ARGV[5] ~= '' and cost > 0 and not passes(step(KEYS[5], ARGV[5], 1, 0)) then
  level = math.min(level + 1, 60)
  local longest = tonumber(ARGV[7])
  local length = math.min(tonumber(ARGV[6]) * 2 ^ (level - 1), longest)
  ban = pack('>I1I7', level, now + length)
  call('SET', KEYS[4], ban, 'PX', string.format('%.0f', math.ceil((length + longest) / 1000)))
  call('DEL', KEYS[5])
  return 'B' .. sub(ban, 2, 8) .. public
end
return 'W' .. public .. pack('>I2', #own) .. own .. pack('>I2', #routed) .. routed .. trial
