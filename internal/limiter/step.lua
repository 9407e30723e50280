-- Takes the cost of a call from all of its states, or from none. It follows ask.lua and
-- completes reply: ask.lua runs again for the states that again names, so that their limits
-- answer as they are after the call. It uses two locals more that a head sets:
--   record   key that marks the call as settled later; false for none
--   keep     how long record is kept (milliseconds)
place, a = 2, 5
local settles = false
for k = first, passed and #KEYS or attempts and #KEYS or 0 do
  local mode, rates, cost, n, window, periods
  mode, rates, cost, n, window, place = unpack('>I1I1I4I4I6', list, place)
  if mode >= 16 then periods, place = place, place + 28 end
  local kind, fits, unused = mode % 4, true, false
  for i = a, a + 3 * rates - 1, 3 do
    if reply[i + 1] ~= 0 then fits = false end
    if reply[i + 2] == 0 then unused = true end
  end
  if cost > 0 and (mode % 8 >= 4 or passed and (fits or mode % 16 < 8)) then
    reply[4] = reply[4] + 2^(k - first)
    -- add.lua
    if changed or not (passed and fits) or kind == 1 or kind > 1 and unused then
      if kind == 0 then -- read all of it again
        texts[k] = call('GET', key)
        if sizes then sizes[k], heads[k] = nil, nil end
      end
      again = again or {}
      again[k] = passed and fits and 1 or 2 -- a denied attempt waits for itself, too
    else
      for i = 0, rates - 1 do
        local r = a + 3 * i
        reply[r] = reply[r] - cost
        if reply[r + 2] == 0 then reply[r + 2] = now + unpack('>I6', list, place + 10 * i + 4) - clock end
      end
    end
  end
  place, a = place + 10 * rates, a + 3 * rates
end
if passed and record then call('SET', record, '1', 'PX', keep) end
