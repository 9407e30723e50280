package enforce

import (
	"net/netip"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Call is one API call of an identified caller.
type Call struct {
	Kind    policy.Kind
	Subject string        // id of the caller; for Kind APIKey the id in Secret
	Secret  apikey.Secret // for Kind APIKey only
	Plan    string        // plan named by the token, for Kind Token; may be empty
	// Scopes are those of a token that Tidegate has verified, empty for one without; nil for
	// a call without such a token, for which the scopes of routes do not matter.
	Scopes  []string
	Group   string       // group named by a direct call, for Kind Token; may be empty
	Address netip.Addr   // client's address, for the address lists; invalid if unknown
	Network netip.Prefix // client's address as limits of each address count it; invalid if unknown
	Route   route.Call

	// Costs are what a direct call says that it costs, in place of the routes'. Settle says
	// that it will be settled, whatever the routes say.
	Costs  limits.Costs
	Settle bool

	Resource string // resource matched by API Gateway, such as /orders/{id}; for records only
	Request  string // API Gateway's request id; for records only

	// Again marks a call that is checked a second time because the first reply was lost.
	// The first check may have taken the cost.
	Again bool

	trusted bool // no secret is asked for: the call is a page's, or is settled
}
