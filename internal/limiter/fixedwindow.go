package limiter

import "tidegate/internal/limiter/calendar"

func (s section) period(now int64, shifts []calendar.Shift) (start, end int64) {
	if s.calendar != NoCalendar {
		return s.calendar.Around(now, shifts)
	}
	start = now - now%s.span
	return start, start + s.span
}

func (st *state) fixedUsage(sec section, shifts []calendar.Shift, now, requests, cost int64) (left, reset,
	retry int64) {
	_, end := sec.period(now, shifts)
	left = requests - st.cur
	if st.cur > 0 {
		reset = end - now
	}
	if cost > left {
		retry = end - now
	}
	return left, reset, retry
}
