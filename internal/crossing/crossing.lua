-- Lists that a threshold of a limit was crossed, unless its mark exists.
--
-- KEYS[1]  the mark
-- KEYS[2]  the bucket's list of reports
-- KEYS[3]  the bucket's count of unregistered callers' reports of the day
-- ARGV[1]  'u' for an unregistered caller, else 'r'
-- ARGV[2]  the report, JSON
-- ARGV[3]  when it was crossed, in ms since 1970
-- ARGV[4]  life of the mark, in ms
--
-- Returns 1 if it was listed, 0 if it was reported before, 2 if unregistered callers have
-- no room left today.
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
