-- Begins every script. Defines the locals call (redis.call), pack and unpack
-- (struct.pack and struct.unpack). The Lua of the embedded server lacks the struct
-- library; for it, this part implements pack and unpack of big-endian integers.
--
-- pack(format, ...)               format has a size I1 to I8 (bytes) for each integer
--                                 that follows; returns the bytes
-- unpack(format, data, position)  position is that of the first byte in data, from 1,
--                                 which is the default; returns the integers, then the
--                                 position after them. Fails if data is too short
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
