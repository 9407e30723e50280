-- Lists a report that a threshold of a limit was crossed, unless the threshold's mark
-- exists.
--
-- KEYS[1]  string: the mark
-- KEYS[2]  zset: the bucket's reports by time, in ms since 1970
-- KEYS[3]  hash: its field n is the number of the day's reports of unregistered callers
-- ARGV[1]  'u' if the report is of an unregistered caller, 'r' otherwise
-- ARGV[2]  the report, JSON
-- ARGV[3]  when the threshold was crossed, in ms since 1970
-- ARGV[4]  life of the mark, in ms
--
-- A bucket lists 128 reports of the last 30 days, and 64 a day of unregistered callers.
--
-- Returns 1 if the report was listed, 0 if the threshold was reported before, 2 if
-- unregistered callers have no room left today.
local call = redis.call
local unregistered = ARGV[1] == 'u'
if unregistered and tonumber(call('HGET', KEYS[3], 'n') or '0') >= 64 then
  return call('EXISTS', KEYS[1]) == 1 and 0 or 2
end
if not call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[4]) then
  return 0
end
if unregistered then
  call('HINCRBY', KEYS[3], 'n', '1')
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
    local subject = cjson.decode(reports[i]).subject
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
