-- Defines append(stream, head, unshipped, expected, body, hash, next, item). If the head of
-- the chain is `expected` ('' before the first entry), append adds an entry, makes `next`
-- the head, and returns true. Otherwise another entry came first, and it returns false.
-- With an item, append adds the entry's id, a newline and the item to the list `unshipped`,
-- for the journal.
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
