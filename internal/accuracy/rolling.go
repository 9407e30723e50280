package accuracy

// rolling has the admitted calls, and their cost in the rolling window that ends now.
type rolling struct {
	window   int64
	admitted []Call
	first    int // the first call in the rolling window
	sum      int64
}

// at moves the window's end to now, which must not be earlier than before, and returns
// the cost in the window.
func (r *rolling) at(now int64) int64 {
	for r.first < len(r.admitted) && r.admitted[r.first].At <= now-r.window {
		r.sum -= r.admitted[r.first].Cost
		r.first++
	}
	return r.sum
}

// admit adds a call, moves the window's end to it, and returns the cost in the window.
func (r *rolling) admit(c Call) int64 {
	r.admitted = append(r.admitted, c)
	r.sum += c.Cost
	return r.at(c.At)
}

// exactLog is the exact sliding window.
type exactLog struct {
	rolling
	limit int64
}

func newExactLog(limit, window int64) decider {
	return &exactLog{rolling{window: window}, limit}
}

func (e *exactLog) Take(now, cost int64) bool {
	if e.at(now)+cost > e.limit {
		return false
	}
	e.admit(Call{now, cost})
	return true
}

// series divides [from, to) into equal parts. For each it returns the largest cost of a
// rolling window that ends in it.
func series(calls []Call, window, from, to int64, points int) []int64 {
	most := make([]int64, points)
	r := rolling{window: window}
	next := 0
	for i := range most {
		begin, end := part(from, to, i, points), part(from, to, i+1, points)
		most[i] = r.at(begin)
		for ; next < len(calls) && calls[next].At < end; next++ {
			most[i] = max(most[i], r.admit(calls[next]))
		}
	}
	return most
}

func part(from, to int64, i, parts int) int64 {
	whole, rest := (to-from)/int64(parts), (to-from)%int64(parts)
	return from + whole*int64(i) + rest*int64(i)/int64(parts)
}
