-- Makes a bucket again, in steps of which only the last one changes the bucket.
--
-- KEYS[1]  the bucket; KEYS[2] its lists; KEYS[3] the claim; KEYS[4] and KEYS[5] the new
--          bucket and its lists, under names that have the claim
-- ARGV[1]  'claim', 'part', 'place' or 'release'
-- ARGV[2]  the claim, a random text
-- claim: ARGV[3] milliseconds until it ends. Returns the claim that the bucket has then.
-- release: the claim ends. Returns the claim.
-- part:  ARGV[3] milliseconds until the part is forgotten, ARGV[4] the number of records,
--        then each as a name and a value, then entries of lists. Returns the claim.
-- place: ARGV[3] the new position's number, ARGV[4] and ARGV[5] the lengths of the new
--        bucket and of its lists, ARGV[6] '1' to replace any position, else an older one.
--        Returns the bucket's position afterwards, '' for none.
local mine = ARGV[2]
if ARGV[1] == 'claim' then
  redis.call('SET', KEYS[3], mine, 'NX', 'PX', ARGV[3])
  return {redis.call('GET', KEYS[3])}
end
if ARGV[1] == 'release' then
  if redis.call('GET', KEYS[3]) == mine then
    redis.call('DEL', KEYS[3])
  end
  return {mine}
end
if ARGV[1] == 'part' then
  local records = 4 + 2 * tonumber(ARGV[4])
  for i = 5, records, 2 do
    redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
  end
  for i = records + 1, #ARGV do
    redis.call('ZADD', KEYS[5], 0, ARGV[i])
  end
  redis.call('PEXPIRE', KEYS[4], ARGV[3])
  redis.call('PEXPIRE', KEYS[5], ARGV[3])
  return {mine}
end
local at = redis.call('HGET', KEYS[1], 'at') or ''
local older = at == '' or tonumber(string.match(at, '^%d+')) < tonumber(ARGV[3])
if redis.call('GET', KEYS[3]) ~= mine or not (older or ARGV[6] == '1')
  or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[4])
  or redis.call('ZCARD', KEYS[5]) ~= tonumber(ARGV[5]) then
  return {at}
end
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('RENAME', KEYS[4], KEYS[1])
redis.call('PERSIST', KEYS[1])
if tonumber(ARGV[5]) > 0 then
  redis.call('RENAME', KEYS[5], KEYS[2])
  redis.call('PERSIST', KEYS[2])
end
return {redis.call('HGET', KEYS[1], 'at')}
