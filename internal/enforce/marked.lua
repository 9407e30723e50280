-- Returns the mark of a caller that is in force at a time, false if there is none. A mark
-- is an id, a line feed and JSON, whose "until" is when it ends (microseconds since 1970).
local function marked(key, id, now)
  for _, mark in ipairs(redis.call('HVALS', key)) do
    local ends = tonumber(string.match(mark, '"until":(%d+)') or 0)
    if string.sub(mark, 1, #id + 1) == id .. '\n' and (ends == 0 or now < ends) then
      return mark
    end
  end
  return false
end
