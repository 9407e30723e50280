-- Adds the counts of some subjects, or of totals and rules, of one bucket in one hour.
-- KEYS[1] subjects by last minute, KEYS[2..5] rankings: admitted and denied in the hour,
-- admitted and denied in the day, KEYS[6] number of newcomers of the day; then for each
-- entry its counts by minute, its counts by hour, its call times (any key of the bucket
-- where it has none). ARGV[1] newcomers that the bucket takes a day, ARGV[2..5] what a
-- score must exceed to enter each ranking, as far as the caller knows (the lowest score
-- of a full ranking only grows), ARGV[6] the first minute that is still recent; then for
-- each entry its id, its head, its minute since 1970, its notes (calls.go), and for each
-- kind in the head the field of the minute, the field of the hour, the count (1 to 2^53).
-- A head is p (plain: a total or a rule), r (a registered subject) or u (any other
-- subject), then a letter for each kind: a allowed, d denied, o other. Returns how many
-- calls of subjects that were refused as newcomers were not counted; if a ranking changed
-- its members, a list of that and, for each ranking, what a score must exceed now, or -1
-- when that was not looked up. Counts must stay below 2^53.
local call, byte = redis.call, string.byte
local quota, newcomers, came = tonumber(ARGV[1]), nil, false
local floors, entered, changed = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]),
  tonumber(ARGV[5]) }, {}, false
local seen, joined = false, false
local refused = 0

-- rank enters a subject that may belong to the 64 highest of a ranking.
local function rank(ranking, id, score)
  if score > floors[ranking] and call('ZADD', KEYS[ranking + 1], string.format('%.0f', score), id) == 1 then
    entered[ranking], changed = true, true
  end
end

-- welcome reports whether a subject may have counts of its own.
local function welcome(hours)
  if call('EXISTS', hours) == 1 then
    return true
  end
  newcomers = newcomers or tonumber(call('GET', KEYS[6]) or '0')
  if newcomers >= quota then
    return false
  end
  newcomers, came = newcomers + 1, true
  return true
end

local at = 7
for key = 7, #KEYS, 3 do
  local minutes, hours = KEYS[key], KEYS[key + 1]
  local id, head, notes = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  local class, kinds = byte(head, 1), #head - 1
  local first = at + 4
  at = first + 3 * kinds
  if class == 117 and not welcome(hours) then
    for i = 1, kinds do
      if byte(head, i + 1) ~= 111 then
        refused = refused + tonumber(ARGV[first + 3 * i - 1])
      end
    end
  else
    local newMinute, newHour, most = false, false, 0
    for i = 1, kinds do
      local arg, kind = first + 3 * i - 3, byte(head, i + 1)
      local delta = tonumber(ARGV[arg + 2])
      local inHour = call('HINCRBY', hours, ARGV[arg + 1], ARGV[arg + 2])
      newMinute = call('HINCRBY', minutes, ARGV[arg], ARGV[arg + 2]) == delta or newMinute
      newHour = inHour == delta or newHour
      if class ~= 112 and kind ~= 111 then
        rank(kind == 97 and 1 or 2, id, inHour)
        most = inHour > most and inHour or most
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
        seen = true
        joined = call('ZADD', KEYS[1], 'GT', ARGV[first - 2], id) == 1 or joined
      end
      if newHour then
        -- Once an hour the day's ranking learns how far a subject has come; readers have
        -- the hour's own ranking for the rest.
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
      if most > 8 and notes ~= '' then
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

if came then
  call('SET', KEYS[6], string.format('%.0f', newcomers), 'EX', '172800')
end
if seen then
  call('EXPIRE', KEYS[1], '90000')
end
if joined then
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
