-- Counts cost in the state KEYS[k] now, and names a number and a window. A settlement leaves
-- the rewrite to the next call. Scripts that write have it where they say "add.lua". It uses
-- the locals k, kind, cost, n, window and periods of the state, and settles. It sets
-- changed if more has changed in texts[k] than the newest entry of a log.
local key, s, changed = KEYS[k], texts[k], false
if kind > 0 then
  s = s or pack('>I1I7I6I7I7I5I6I5', 1, now, window, now, 0, 0, 0, 0)
  local _, opened, start, previous, count, parts = roll(s, kind, n, periods)
  count = min(count + cost, 2 * REACH)
  texts[k] = pack('>I1I7I6I7I7I5I6I5', 1, now, window, opened, start, previous, parts, count)
  call('SET', key, texts[k], 'PX', floor((now + 2 * window - clock) / 1000) + 1)
elseif not s then
  s = pack('>I1I7I6I6I4I4I3I3I7I5I7I5', 1, now, window, window, n, n, LEAST, 0, now - 1, 0, now, cost)
  call('SET', key, s, 'PX', floor((now + 2 * window - clock) / 1000) + 1)
else
  local _, began, keep, keep2, number, num2, full, next, _, held =
    unpack('>I1I7I6I6I4I4I3I3I7I5', heads and heads[k] or s)
  local named = true
  if now - began >= keep then -- a new period
    began, keep, number, keep2, num2 = now, max(keep2, window), max(num2, n), window, n
  elseif window > keep2 or n > num2 then
    keep, keep2, number, num2 = max(keep, window), max(keep2, window), max(number, n), max(num2, n)
  else
    named = false
  end
  local newest, total = unpack('>I7I5', s, #s - 11)
  local size = sizes and sizes[k] or #s
  local count = (size - HEAD) / ENTRY
  held = (total - held) % M
  if settles then cost = min(cost, M - 2^32 - held) end
  held, total = held + cost, (total + cost) % M
  local entry, same = pack('>I7I5', now, total), newest == now and count > 1
  if not same then count = count + 1 end
  if same then
    call('SETRANGE', key, size - ENTRY, entry)
  else
    call('APPEND', key, entry)
  end
  if settles or count < full and held <= 2 * REACH then
    if named then
      call('SETRANGE', key, 0, pack('>I1I7I6I6I4I4I3I3', 1, began, keep, keep2, number, num2, full, next))
      call('PEXPIRE', key, floor((began + 2 * keep - clock) / 1000) + 1)
      changed = true
    end
  else
    -- The rewrite merges neighbours in the next piece of the log, and drops entries that
    -- stand for nothing, because their calls were given back. With the first piece it cuts
    -- off what the longest remembered window does not reach. A merged entry has the time of
    -- its latest call: it counts a little too long, never too short.
    s = call('GET', key)
    if held > 2 * REACH then next = 0 end
    local cut, base = 0, next
    if next == 0 then
      local hi, since = count - 1, max(now - keep, reset)
      while base < hi do -- the last entry that is not later than since, or the first
        local middle = floor((base + hi + 1) / 2)
        if unpack('>I7', s, HEAD + 1 + ENTRY * middle) > since then hi = middle - 1 else base = middle end
      end
      if (total - unpack('>I5', s, HEAD + ENTRY * base + 8)) % M > REACH then
        hi = count - 1
        while base < hi do -- the last after which more than REACH was counted
          local middle = floor((base + hi + 1) / 2)
          local after = (total - unpack('>I5', s, HEAD + 8 + ENTRY * middle)) % M
          if after > REACH then base = middle else hi = middle - 1 end
        end
        local p = HEAD + ENTRY * base + 8
        s = sub(s, 1, p - 1) .. pack('>I5', (total - REACH) % M) .. sub(s, p + 5)
      end
      cut = base
    end
    -- From exact on nothing merges, and nothing is dropped if there are no more entries than
    -- what they stand for.
    local enough = min(number, 2 * PART)
    local exact, hi = base + 1, count - 1
    while exact < hi do
      local middle = floor((exact + hi) / 2)
      local after = (total - unpack('>I5', s, HEAD + 8 + ENTRY * middle)) % M
      if after < enough then hi = middle else exact = middle + 1 end
    end
    if count - exact > enough then exact = count end
    local last = min(base + PIECE, exact - 1)
    local sums, runs, kept, i, high = {}, {}, 1, last, last -- high: the newest entry of a run that stays
    for e = base, last do sums[e] = unpack('>I5', s, HEAD + ENTRY * e + 8) end
    while i > base do
      local start, low, sum = i - 1, i, sums[i]
      if sum == sums[start] then
        low = i + 1
      else
        local after = (total - sum) % M
        while start > base and (after >= number or PART * ((sum - sums[start - 1]) % M) <= after) do
          start = start - 1
        end
        kept = kept + 1
      end
      i = start
      if start < low - 1 or start == base then
        runs[#runs + 1] = sub(s, HEAD + ENTRY * low + 1, HEAD + ENTRY * (high + 1))
        high = start
      end
    end
    for e = 1, #runs / 2 do runs[e], runs[#runs + 1 - e] = runs[#runs + 1 - e], runs[e] end
    next = base - cut + kept - 1
    local rest = count - 1 - last
    count = next + 1 + rest
    if last == exact - 1 then next, kept = 0, kept + rest end
    full = max(LEAST, count + floor(kept * 9 / 10))
    s = pack('>I1I7I6I6I4I4I3I3', 1, began, keep, keep2, number, num2, full, next)
      .. sub(s, HEAD + ENTRY * cut + 1, HEAD + ENTRY * (base + 1)) .. table.concat(runs)
      .. sub(s, HEAD + ENTRY * (last + 1) + 1)
    call('SET', key, s, 'PX', floor((began + 2 * keep - clock) / 1000) + 1)
    changed = true
  end
end
