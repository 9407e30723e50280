-- First part of the general step: the windows of counters and fixed windows, with and
-- without a calendar. readstate.lua describes the input and output of the step, and
-- sections_of there the fields of a section.
--
-- Defines period(section), which returns start and end of the window that contains now.
-- section is a counter or a fixed window. All times are in microseconds: instants since
-- 1970 (UTC), local times since 1970 on the clocks of the section's zone.

local floor = math.floor

-- Returns the start of shift i (from 1) of a calendar section's zone, and the zone's
-- offset east of UTC from then on.
local function shift(section, i)
  local from, seconds = unpack('>I7I3', prog, section.shifts_at + 10 * (i - 1))
  return from, (seconds - 8388608) * 1000000
end

-- Returns the first instant, from shift i on, at which the clocks of a section's zone
-- show at least the local time moment.
local function reached(section, i, moment)
  while true do
    local from, offset = shift(section, i)
    local instant = moment - offset
    if i > 1 and instant < from then instant = from end
    if i == section.shifts or instant < (shift(section, i + 1)) then return instant end
    i = i + 1
  end
end

-- Returns the number of days of a year that begins in March. year counts from 0 within
-- its era of 400 years.
local function days_of(year)
  return (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) and 366 or 365
end

-- Returns start and end of the window of a counter or fixed window that contains now.
local function period(section)
  local span = section.span
  if section.calendar == 0 then
    local start = now - now % span
    return start, start + span
  end
  local current = section.shifts
  while current > 1 and now < (shift(section, current)) do current = current - 1 end
  local _, offset = shift(section, current)
  local day = 86400000000
  local moment = now + offset
  local from, to
  if section.calendar <= 2 then
    local unit = section.calendar == 1 and 60000000 or 3600000000
    from = moment - moment % unit - offset
    return from, from + unit
  elseif section.calendar == 3 then
    from = moment - moment % day
    to = from + day
  elseif section.calendar == 5 then -- a week from Monday; 1970 began on a Thursday
    from = moment - (moment + 3 * day) % (7 * day)
    to = from + 7 * day
  else
    -- Howard Hinnant's civil_from_days. Years begin in March.
    local days = floor(moment / day)
    local doe = (days + 719468) % 146097
    local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
    local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
    if section.calendar == 6 then -- January is from day 306 on
      from = (days - doy + 306) * day
      to = from + days_of(yoe + 1) * day
      if doy < 306 then
        to = from
        from = from - days_of(yoe) * day
      end
    else
      local month = floor((5 * doy + 2) / 153)
      local begins = floor((153 * month + 2) / 5)
      local length = floor((153 * (month + 1) + 2) / 5) - begins
      if month == 11 then length = days_of(yoe + 1) - 337 end
      from = (days - doy + begins) * day
      to = from + length * day
    end
  end
  return reached(section, 1, from), reached(section, current, to)
end
