-- Defines append(stream, previous, body, hash), which adds an entry behind the one whose hash is `previous` ('' for the first) and returns true, or
-- returns false when another entry came first.
local function append(stream, previous, body, hash)
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  if (last and last[2][4] or '') ~= previous then
    return false
  end
  redis.call('XADD', stream, '*', 'e', body, 'h', hash)
  return true
end
