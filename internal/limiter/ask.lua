-- Decides a call, and writes nothing. It follows open.lua and fills two locals: passed, and
-- reply, a list of integers:
--   1 if the call passes, else 0
--   the instant of the call in the states, by which it is given back
--   clock
--   the states that took the cost: 2^0 for the first, 2^1 for the second; here 0
--   of each limit: what is left, below 0 if it is owed; the wait from clock until the
--   cost fits, 0 if it does, -1 if it never does; the time from clock until more is left,
--   0 if nothing is used
-- After a step took the cost it runs again, for the states that again names: 1 if the cost
-- fitted, else 2.
local place, a = 2, 5
for k = first, #KEYS do
  local mode, rates, cost, number, longest, periods
  mode, rates, cost, number, longest, place = unpack('>I1I1I4I4I6', list, place)
  if mode >= 16 then periods, place = place, place + 28 end
  local s, kind, fits = texts[k], mode % 4, true
  if again and not again[k] then
    place, a, rates = place + 10 * rates, a + 3 * rates, 0
  end
  for _ = 1, rates do
    local n, window
    n, window, place = unpack('>I4I6', list, place)
    local left, wait, more = n, 0, 0
    if cost > n then wait = -1 end
    if not s then
      -- nothing was counted
    elseif kind == 0 then
      local size, since = sizes and sizes[k] or #s, max(now - window, reset)
      local newest, total = unpack('>I7I5', s, #s - 11)
      if newest > since and size > HEAD + ENTRY then
        -- i: the first entry that is later than since
        local count, i, before, time, sum = (size - HEAD) / ENTRY, 1
        if size > #s then
          i, time, sum, before = find(k, count, total, 1, since)
        else
          local hi = count
          local guess = count > n and count - n or 1 -- right if n is used up by calls of cost 1
          if unpack('>I7', s, HEAD + 1 + ENTRY * guess) > since then hi = guess else i = guess + 1 end
          if i < hi and unpack('>I7', s, HEAD + 1 - ENTRY + ENTRY * hi) <= since then i = hi end
          while i < hi do
            local middle = floor((i + hi) / 2)
            if unpack('>I7', s, HEAD + 1 + ENTRY * middle) > since then hi = middle else i = middle + 1 end
          end
          before, time, sum = unpack('>I5I7I5', s, HEAD - 4 + ENTRY * i)
        end
        left = n - (total - before) % M
        if left < n then
          local _, began, keep = unpack('>I1I7I6', heads and heads[k] or s)
          local ends, want = began + 2 * keep, max(left, 0) + 1
          repeat -- first until more is left, then until the cost fits: after the entry i
            local rest = n - want
            if (total - sum) % M <= rest then
              -- it is this one
            elseif size > #s then
              i, time, sum = find(k, count, total, i, nil, rest)
            else
              local hi = count - 1
              i = i + 1
              if i < hi - rest then i = hi - rest end -- right if each call cost 1, and none was given back
              if (total - unpack('>I5', s, HEAD - 4 + ENTRY * i)) % M <= rest then i = 1 end
              if (total - unpack('>I5', s, HEAD + 8 + ENTRY * i)) % M <= rest then hi = i end
              while i < hi do
                local middle = floor((i + hi) / 2)
                if (total - unpack('>I5', s, HEAD + 8 + ENTRY * middle)) % M <= rest then
                  hi = middle
                else
                  i = middle + 1
                end
              end
              time, sum = unpack('>I7I5', s, HEAD + 1 + ENTRY * i)
            end
            local at = min(time + window, ends) - clock
            if more == 0 then more = at end
            if want == cost then wait = at end
            local enough = wait ~= 0 or cost <= left or cost == 0
            want = cost
          until enough
        end
      end
    else
      local finish, _, _, previous, used, parts = roll(s, kind, number, periods)
      left = n - used
      if parts > 0 then left = left - 1 end
      if kind == 1 then
        local weighted, rest = muldiv(finish - now, previous, window)
        left = left - weighted
        if rest > 0 then left = left - 1 end
      end
      local want = max(left, 0) + 1
      while want <= n do -- first until more is left, then until the cost fits
        local at, over = finish, used + want - n
        if kind == 2 then
          at = unpack('>I7', s, 2) + 2 * window
          if over < 2 * n then
            local drains, rest = muldiv(window, over, n)
            at = min(at, now + drains + math.ceil((rest + parts) / n))
          end
        elseif kind == 1 and over <= 0 then -- as soon as less of the previous window overlaps
          at = finish - muldiv(window, -over, previous)
        elseif kind == 1 then
          at = finish + window - muldiv(window, n - want, used)
        end
        if more == 0 then more = at - clock else wait = at - clock end
        if wait ~= 0 or cost <= left or cost == 0 then break end
        want = cost
      end
    end
    if again and again[k] == 1 then wait = 0 end
    if wait ~= 0 then fits = false end
    reply[a], reply[a + 1], reply[a + 2] = left, wait, more
    a = a + 3
  end
  if not again then
    if not fits and mode % 16 < 8 then passed = false end
    if mode % 8 >= 4 then attempts = true end
  end
end
