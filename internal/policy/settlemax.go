package policy

import (
	"fmt"

	"tidegate/internal/limiter"
)

// DefaultSettleMax is how many times its cost a settlement may charge to limits that
// callers share, on a route that states no SettleMax.
const DefaultSettleMax = 10

// SettleBound returns the most that settling a call may charge to limits that callers
// share. cost is what the call took; the result is at least cost, because that much is
// charged already.
func (r Route) SettleBound(cost int64) int64 {
	most := r.SettleMax
	if most == 0 {
		most = SettleMaxOf(cost)
	}
	return max(most, cost)
}

// SettleMaxOf returns the bound of a settlement on a route that states none.
func SettleMaxOf(cost int64) int64 {
	return min(DefaultSettleMax*cost, limiter.MaxRequests)
}

// settleMaxProblem says what is wrong with SettleMax; it is empty when nothing is.
func (r Route) settleMaxProblem() string {
	least := max(r.Cost, 1)
	if r.SettleMax == 0 || r.SettleMax >= least && r.SettleMax <= limiter.MaxRequests {
		return ""
	}
	return fmt.Sprintf("is %d: must be %d, what a call costs, to %d; leave it out for %d times the cost",
		r.SettleMax, least, int64(limiter.MaxRequests), DefaultSettleMax)
}
