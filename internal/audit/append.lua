-- Defines append(stream, head, expected, body, hash, next), which adds an entry to a
-- chain whose head is `expected` ('' before the first entry), makes `next` its head, and
-- returns true; or returns false when another entry came first.
local function append(stream, head, expected, body, hash, next)
  if (redis.call('GET', head) or '') ~= expected then
    return false
  end
  redis.call('XADD', stream, '*', 'e', body, 'h', hash)
  redis.call('SET', head, next)
  return true
end
