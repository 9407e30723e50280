-- Lists a report that a threshold of a limit was crossed, unless the threshold's mark
-- exists.
--
-- KEYS[1]  string: the mark
-- KEYS[2]  zset: the bucket's reports by time, in ms since 1970
-- KEYS[3]  hash: numbers of the day's reports that were listed, by class, and of those that
--          found no room, by 'd' and the class
-- ARGV[1]  the class of the caller: 'r' registered, 't' known by a token, 'u' any other
-- ARGV[2]  the report, JSON
-- ARGV[3]  when the threshold was crossed, in ms since 1970
-- ARGV[4]  life of the mark, in ms
--
-- A bucket lists 128 reports of the last 30 days. Callers known by a token have 32 a day
-- of them, and all others without an API key another 32.
--
-- Returns 1 if the report was listed, 0 if the threshold was reported before, 2 if the
-- class has no room left today.
local call = redis.call
local class = ARGV[1]
local bounded = class ~= 'r'
if bounded and tonumber(call('HGET', KEYS[3], class) or '0') >= 32 then
  if call('EXISTS', KEYS[1]) == 1 then
    return 0
  end
  call('HINCRBY', KEYS[3], 'd' .. class, '1')
  return 2
end
if not call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[4]) then
  return 0
end
if bounded then
  call('HINCRBY', KEYS[3], class, '1')
  call('EXPIRE', KEYS[3], '172800')
end
call('ZADD', KEYS[2], ARGV[3], ARGV[2])
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', tonumber(ARGV[3]) - 2592000000))
local reports = call('ZRANGE', KEYS[2], '0', '-1')
if #reports > 128 then
  -- Removes the oldest report of the subject with the most, so that no caller removes the
  -- reports of others.
  local subjects, counts, most = {}, {}, 0
  for i = 1, #reports do
    local readable, report = pcall(cjson.decode, reports[i])
    local subject = readable and report.subject or ''
    subjects[i], counts[subject] = subject, (counts[subject] or 0) + 1
    if counts[subject] > most then most = counts[subject] end
  end
  for i = 1, #reports do
    if counts[subjects[i]] == most then
      call('ZREMRANGEBYRANK', KEYS[2], i - 1, i - 1)
      break
    end
  end
end
call('EXPIRE', KEYS[2], '2678400')
return 1
