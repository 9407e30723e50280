package enforce

import (
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// Explanation is what a Check of a call would return, and why.
type Explanation struct {
	Routes    []limits.Matched // routes that the call falls under, the most specific first
	CostFrom  string           // name of the route that says the cost; empty for the default of 1
	Refused   string           // why the caller may not call, whatever the limits; empty if it may
	Exempt    bool             // the address is not limited
	Effective policy.Effective
	// Result is what Check would return, but Remaining is that before the call. Every limit
	// that applies is in it; those that a check would not ask are Unread.
	Result Result
}

// Survey is every limit that some call of a key may fall under, on any route and from any
// address.
type Survey struct {
	Refused   string // why no call of the key passes, whatever the limits; empty if some may
	Effective policy.Effective
	// Result has all of these limits, with the state of those that have one without a call's
	// values, for a cost of 1. Its Allowed says whether a call that falls under no route
	// would pass the limits of the caller and its group.
	Result Result
}
