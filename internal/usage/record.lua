-- Adds counts in one bucket and hour: of the calls of subjects, or of totals, rules and
-- refusals.
--
-- KEYS[1]    zset: subjects by the minute of their last call
-- KEYS[2…5]  the rankings, zsets of subjects: by calls admitted and denied in the hour,
--            then by calls admitted and denied in the day
-- KEYS[6]    string: unregistered subjects that were new in the bucket on the day
-- KEYS[7…]   for each entry: hash of its counts by minute; hash of its counts by hour;
--            string of its call times, or any key of the bucket if it has none
-- ARGV[1]    how many new unregistered subjects the bucket accepts a day
-- ARGV[2…5]  the floor of each ranking, which a score must exceed to enter it. An old
--            floor is safe: the lowest score of a full ranking only grows
-- ARGV[6]    the oldest minute that KEYS[1] keeps, since 1970
-- ARGV[7…]   for each entry: its id; its head; its minute since 1970; its notes, as
--            appendNotes in calls.go encodes them; then for each kind in the head the
--            field of the minute, the field of the hour and the count, 1 to 2^53
--
-- A head is p (a total, a rule or refusals), r (a registered subject) or u (any other
-- subject), and one letter for each kind: a allowed, d denied, o other. Stored counts must
-- stay below 2^53.
--
-- Returns the number of calls that were not counted, because their subjects are new and
-- the bucket accepts no more. If a ranking got a new member, returns a list instead: this
-- number, then for each ranking its floor, or -1 if it got none.
local call, byte = redis.call, string.byte
local quota, newcomers, newcomersChanged = tonumber(ARGV[1]), nil, false
local floors, entered, changed = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]),
  tonumber(ARGV[5]) }, {}, false
local seenChanged, seenAdded = false, false
local refused = 0

-- rank adds a subject to a ranking if its score exceeds the floor. The end of the script
-- cuts rankings to the 64 highest.
local function rank(ranking, id, score)
  if score > floors[ranking] and call('ZADD', KEYS[ranking + 1], string.format('%.0f', score), id) == 1 then
    entered[ranking], changed = true, true
  end
end

-- accept reports whether an unregistered subject has counts of its own, or may get them.
-- It counts newcomers.
local function accept(hours)
  if call('EXISTS', hours) == 1 then
    return true
  end
  newcomers = newcomers or tonumber(call('GET', KEYS[6]) or '0')
  if newcomers >= quota then
    return false
  end
  newcomers, newcomersChanged = newcomers + 1, true
  return true
end

local at = 7
for key = 7, #KEYS, 3 do
  local minutes, hours = KEYS[key], KEYS[key + 1]
  local id, head, notes = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  local class, kinds = byte(head, 1), #head - 1
  local first = at + 4
  at = first + 3 * kinds
  if class == 117 and not accept(hours) then
    for i = 1, kinds do
      if byte(head, i + 1) ~= 111 then
        refused = refused + tonumber(ARGV[first + 3 * i - 1])
      end
    end
  else
    local newMinute, newHour, highestCount = false, false, 0
    for i = 1, kinds do
      local arg, kind = first + 3 * i - 3, byte(head, i + 1)
      local delta = tonumber(ARGV[arg + 2])
      local inHour = call('HINCRBY', hours, ARGV[arg + 1], ARGV[arg + 2])
      newMinute = call('HINCRBY', minutes, ARGV[arg], ARGV[arg + 2]) == delta or newMinute
      newHour = inHour == delta or newHour
      if class ~= 112 and kind ~= 111 then
        rank(kind == 97 and 1 or 2, id, inHour)
        highestCount = inHour > highestCount and inHour or highestCount
      end
    end
    if newMinute then
      call('EXPIRE', minutes, '90000')
    end
    if newHour then
      call('EXPIRE', hours, '2678400')
    end
    if class ~= 112 then
      if newMinute then
        seenChanged = true
        seenAdded = call('ZADD', KEYS[1], 'GT', ARGV[first - 2], id) == 1 or seenAdded
      end
      if newHour then
        -- The day's ranking is updated once an hour for each subject. Readers add the
        -- rankings of the latest hours.
        local all, admitted, denied = call('HGETALL', hours), 0, 0
        for i = 1, #all, 2 do
          local kind = all[i] % 8
          if kind == 0 then
            admitted = admitted + all[i + 1]
          elseif kind == 1 then
            denied = denied + all[i + 1]
          end
        end
        rank(3, id, admitted)
        rank(4, id, denied)
      end
      if highestCount > 8 and notes ~= '' then
        local length = call('APPEND', KEYS[key + 2], notes)
        if length == #notes then
          call('EXPIRE', KEYS[key + 2], '7200')
        elseif length > 2400 then
          call('SET', KEYS[key + 2], call('GETRANGE', KEYS[key + 2], '-1536', '-1'), 'EX', '7200')
        end
      end
    end
  end
end

if newcomersChanged then
  call('SET', KEYS[6], string.format('%.0f', newcomers), 'EX', '172800')
end
if seenChanged then
  call('EXPIRE', KEYS[1], '90000')
end
if seenAdded then
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[6])
  call('ZREMRANGEBYRANK', KEYS[1], '0', '-2049')
end
if not changed then
  return refused
end
local reply = { refused, -1, -1, -1, -1 }
for ranking in pairs(entered) do
  local key = KEYS[ranking + 1]
  call('ZREMRANGEBYRANK', key, '0', '-65')
  call('EXPIRE', key, ranking < 3 and '90000' or '2678400')
  reply[ranking + 1] = tonumber(call('ZRANGE', key, '-64', '-64', 'WITHSCORES')[2] or '0')
end
return reply
