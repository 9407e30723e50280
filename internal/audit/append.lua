-- Defines append(stream, head, unshipped, expected, body, hash, next, item), which adds
-- an entry to a chain whose head is `expected` ('' before the first entry), makes `next`
-- its head, and returns true; or returns false when another entry came first. An item
-- that is not '' is what the journal is to store: it joins the list `unshipped`, behind
-- the id of the entry and a newline.
local function append(stream, head, unshipped, expected, body, hash, next, item)
  if (redis.call('GET', head) or '') ~= expected then
    return false
  end
  local id = redis.call('XADD', stream, '*', 'e', body, 'h', hash)
  redis.call('SET', head, next)
  if item ~= '' then
    redis.call('RPUSH', unshipped, id .. '\n' .. item)
  end
  return true
end
