-- Settles a call: gives back what it did not cost, and charges what it cost more. It
-- follows open.lua, and leaves the local reply: what each state gave back or was charged;
-- empty if the call is settled already. It uses two locals more that a head sets:
--   at      the instant of the call in the states, by which it is known
--   record  key that marks the call; it is deleted, and without it nothing is settled;
--           false for a call that has none
local reply, place, settles = {}, 2, true
local from = first
if record and call('DEL', record) == 0 then from = #KEYS + 1 end
for k = from, #KEYS do
  local mode, cost, n, window, periods, _
  mode, _, cost, n, window, place = unpack('>I1I1I4I4I6', list, place)
  if mode % 32 >= 16 then periods, place = place, place + 28 end
  local kind, text, given = mode % 4, texts[k], 0
  if mode >= 32 then
    given = cost
    -- add.lua
  elseif not text or at <= reset then
    -- what is not known stays counted
  elseif kind == 0 then
    -- The entry of the call is the first that is not earlier. It gives at most what it
    -- stands for. Only differences of totals matter, so those of the shorter side of the
    -- log move.
    local size, newest = sizes and sizes[k] or #text, unpack('>I7', text, #text - 11)
    local count = (size - HEAD) / ENTRY
    if at <= newest and unpack('>I7', heads and heads[k] or text, HEAD + 1) < at then
      local total, i, hi, before, sum = unpack('>I5', text, #text - 4), 1, count - 1
      if size > #text then
        i, _, sum, before = find(k, count, total, 1, at - 1)
      else
        while i < hi do
          local middle = floor((i + hi) / 2)
          if unpack('>I7', text, HEAD + 1 + ENTRY * middle) >= at then hi = middle else i = middle + 1 end
        end
        before, _, sum = unpack('>I5I7I5', text, HEAD - 4 + ENTRY * i)
      end
      given = min(cost, (sum - before) % M)
      local low, high, by = i, count - 1, -given
      if i < count - i then low, high, by = 0, i - 1, given end
      if given > 0 then
        local entries, p = {}, 1
        text = call('GETRANGE', KEYS[k], HEAD + ENTRY * low, HEAD + ENTRY * high + 11)
        for e = 1, high - low + 1 do
          local time, after
          time, after, p = unpack('>I7I5', text, p)
          entries[e] = pack('>I7I5', time, (after + by) % M)
        end
        call('SETRANGE', KEYS[k], HEAD + ENTRY * low, table.concat(entries))
      end
    end
  else
    local _, last, _, first, start, previous, parts, count = unpack('>I1I7I6I7I7I5I6I5', text)
    if at < first or at > last or first <= reset then
      -- another call's
    elseif kind == 2 then -- what drained before the latest call may have been this call's
      local drained, rest = muldiv((last - at) % window, n, window)
      drained = drained + min(floor((last - at) / window), cost) * n
      if cost > drained then
        given = min(cost - drained, parts > 0 and count + 1 or count)
        count, parts = count - (cost - drained), parts + rest
        if parts >= window then count, parts = count + 1, parts - window end
        if count < 0 then count, parts = 0, 0 end
      end
    elseif at >= start then
      given = min(cost, count)
      count = count - given
    elseif kind == 1 and at >= start - window then
      given = min(cost, previous)
      previous = previous - given
    end
    if given > 0 then
      text = pack('>I1I7I6I7I7I5I6I5', 1, last, window, first, start, previous, parts, count)
      call('SETRANGE', KEYS[k], 0, text)
    end
  end
  reply[#reply + 1] = given
end
