package limits

// Who says for whom a limit counts apart.
type Who uint8

// The values of Who.
const (
	// Unsaid is each caller in a plan and in an override. The policy must say it.
	Unsaid Who = iota
	EachCaller
	EachGroup // of keys; keys in no group are not limited
	EachAddress
	EachParam     // each value of a path parameter, of all callers together
	CallerParam   // each caller and value of a path parameter
	CallerPattern // each caller and pattern of the route
	Together      // all callers: of the plan in a plan, of the policy in the policy
	lastWho       = Together
)

// OfCaller reports whether what the limit counts belongs to one caller. Such limits are
// one atomic step in the caller's slot.
func (w Who) OfCaller() bool {
	return w <= EachCaller || w == CallerParam || w == CallerPattern
}

// For returns for whom the limit counts apart, in words; empty for Unsaid.
func (l Limit) For() string {
	switch l.Who {
	case EachCaller:
		return "each caller"
	case EachGroup:
		return "each group"
	case EachAddress:
		return "each address"
	case EachParam:
		return "each {" + l.Param + "}"
	case CallerParam:
		return "each caller and {" + l.Param + "}"
	case CallerPattern:
		return "each caller and pattern"
	case Together:
		return "together"
	case Unsaid:
	}
	return ""
}

func rank(w Who) int {
	if w.OfCaller() {
		return 0
	}
	return 1
}
