package usage

// floors is what a score must exceed to enter the rankings: admitted and denied in the
// hour, admitted and denied in the day. It is 0 as long as a ranking has room, and
// otherwise only grows, so that an old one lets in too many and never too few.
type floors [4]int64

// ranked remembers the floors of a bucket, so that the script need not look for subjects
// that are far below.
type ranked struct {
	hour   int64
	floors floors
}

// of returns the floors for an hour.
func (r *ranked) of(hour int64) floors {
	switch {
	case hour == r.hour:
		return r.floors
	case hour/hoursPerDay == r.hour/hoursPerDay:
		return floors{2: r.floors[2], 3: r.floors[3]}
	}
	return floors{}
}

// learn takes over the floors that are not negative.
func (r *ranked) learn(hour int64, learnt floors) {
	if hour < r.hour {
		return
	}
	*r = ranked{hour, r.of(hour)}
	for i, floor := range learnt {
		if floor >= 0 {
			r.floors[i] = max(r.floors[i], floor)
		}
	}
}
