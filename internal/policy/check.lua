-- Head of the check: finds the key and its newest limits, in the same step that takes from them.
-- KEYS[1] the key's record, KEYS[2] its state (same slot); ARGV[1] the 32-byte hash of the secret, ARGV[2] the cost, 1 to 1e9.
-- Returns nil when no such key may call, else the record from its version on, then the encoded decision.
local record = redis.call('GET', KEYS[1])
if not record or string.byte(record, 1) ~= 1 or string.byte(record, 2) ~= 1 or string.sub(record, 3, 34) ~= ARGV[1] then
  return false
end
if string.byte(record, 45) ~= 2 then
  return redis.error_reply('ERR the record was written by another version of Tidegate: save the key again')
end
local key, cost, refund = KEYS[2], tonumber(ARGV[2]), 0
local prog = string.sub(record, 43, 42 + struct.unpack('>I2', record, 39))
