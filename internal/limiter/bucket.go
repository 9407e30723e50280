package limiter

import "cmp"

// debt is the time until a bucket is full: whole microseconds, and a number of parts of
// 1/limit of a microsecond.
type debt struct{ whole, part int64 }

func (d debt) compare(o debt) int {
	return cmp.Or(cmp.Compare(d.whole, o.whole), cmp.Compare(d.part, o.part))
}

// minus returns d minus o, which must not be larger than d.
func (d debt) minus(o debt, requests int64) debt {
	d.whole -= o.whole
	d.part -= o.part
	if d.part < 0 {
		d.whole--
		d.part += requests
	}
	return d
}

// roundUp returns the debt in microseconds, rounded up.
func (d debt) roundUp() int64 {
	if d.part > 0 {
		return d.whole + 1
	}
	return d.whole
}

// calls returns the number of calls that a debt stands for, rounded up.
func (d debt) calls(requests, span int64) int64 {
	calls, rest := muldiv(requests, d.whole, span)
	return calls + (rest+d.part+span-1)/span
}

// debtOf returns the debt of a number of calls.
func debtOf(calls, span, requests int64) (d debt) {
	d.whole, d.part = muldiv(calls, span, requests)
	return d
}

func least(a, b debt) debt {
	if a.compare(b) < 0 {
		return a
	}
	return b
}

// debt returns the debt of a bucket at the time now.
func (p *part) debt(now int64) debt {
	if p.whole < now {
		return debt{}
	}
	return debt{p.whole - now, p.part}
}

func (p *part) setDebt(now int64, d debt) { p.whole, p.part = now+d.whole, d.part }

// debtWith returns the debt of a bucket with cost added.
func (p *part) debtWith(now, cost int64) debt {
	d, added := p.debt(now), debtOf(cost, p.window, p.group)
	d.whole, d.part = d.whole+added.whole, d.part+added.part
	if d.part >= p.group {
		d.whole, d.part = d.whole+1, d.part-p.group
	}
	return d
}

// charge adds cost to a bucket. It drops what makes the debt longer than two windows, and
// counts the dropped calls.
func (p *part) charge(now, cost int64) {
	if p.whole < now {
		p.excess = 0
	}
	most, dropped := debt{whole: 2 * p.window}, max(0, cost-2*p.group)
	d := p.debtWith(now, cost-dropped)
	if d.compare(most) > 0 {
		dropped += d.minus(most, p.group).calls(p.group, p.window)
		d = most
	}
	p.excess = min(p.excess+dropped, maxCount)
	p.setDebt(now, d)
}

// bucketUsage evaluates a token bucket for a cost. It returns what usageOf returns.
func (p *part) bucketUsage(now, cost int64) (left, reset, retry int64) {
	d := p.debt(now)
	if over := d.whole - p.window; over >= 0 {
		left = -debt{over, d.part}.calls(p.group, p.window)
	} else {
		var rest int64
		left, rest = muldiv(p.group, -over, p.window)
		if rest < d.part {
			left -= (d.part - rest + p.window - 1) / p.window
		}
	}
	return left, d.roundUp(), p.bucketRetry(now, cost)
}

func (p *part) bucketRetry(now, cost int64) int64 {
	return p.debtWith(now, cost).roundUp() - p.window
}

// refundBucket gives back the debt of a call that cannot have drained since, first in
// calls that the bucket dropped. It returns the number of calls for which the bucket may
// still have debt.
func (p *part) refundBucket(r refund) (unreturned int64) {
	owed := p.debt(r.now)
	if p.excess > 0 && r.taken <= r.now && owed != (debt{}) {
		drained := debt{whole: min(r.now-r.taken, 2*p.window)}.calls(p.group, p.window)
		dropped := min(p.excess, max(0, r.cost-drained))
		p.excess -= dropped
		r.cost -= dropped
	}
	given := debtOf(min(r.cost, 4*p.group), p.window, p.group)
	most := least(given, owed)
	given.whole -= r.now - r.taken
	if given.whole < 0 || r.taken > r.now || p.excess > 0 {
		given = debt{}
	}
	given = least(given, owed)
	p.setDebt(r.now, owed.minus(given, p.group))
	return most.minus(given, p.group).calls(p.group, p.window)
}
