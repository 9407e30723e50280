-- Begins every script. The embedded server's Lua has no struct library: for it alone,
-- this is the part of struct that the scripts use, pack and unpack of big-endian
-- integers.
local struct = rawget(_G, 'struct') or {
  pack = function(format, ...)
    local values, out, n = {...}, {}, 0
    for size in string.gmatch(format, 'I(%d)') do
      n = n + 1
      local value, bytes = values[n], {}
      for i = tonumber(size), 1, -1 do
        bytes[i] = string.char(value % 256)
        value = math.floor(value / 256)
      end
      out[n] = table.concat(bytes)
    end
    return table.concat(out)
  end,
  unpack = function(format, data, position)
    local values, at = {}, position or 1
    for size in string.gmatch(format, 'I(%d)') do
      local value = 0
      for i = at, at + size - 1 do
        value = value * 256 + (string.byte(data, i) or error('data string too short'))
      end
      at = at + size
      values[#values + 1] = value
    end
    values[#values + 1] = at
    return unpack(values)
  end,
}
local call, unpack, pack = redis.call, struct.unpack, struct.pack
