package templates

// PoliciesPage shows the policy set.
type PoliciesPage struct {
	Page     Page
	Version  string
	Plans    []PlanRow
	Routes   []RouteRow
	Limits   []PlanLimit  // of all callers, but those in shadow, which have no use
	Shadow   []TriedLimit // of all callers
	Since    string       // since when Shadow is counted; empty without any
	Everyone []Fact       // what else applies to all callers
	Audit    string
	Export   string // address of the policy file
	Import   string // address of the form that imports a policy file; empty for viewers
	NewPlan  string // addresses of forms; empty for viewers
	NewRoute string
	EditAll  string
}

// PlanRow is a plan. Addresses of actions are empty for viewers.
type PlanRow struct {
	Name     string
	Address  string
	Limits   []string
	Degraded string
	Keys     string
	KeysLink string
	Edit     string
	Create   string
	Delete   string
}

// RouteRow is a route.
type RouteRow struct {
	Name   string
	Match  []string // patterns
	Cost   string
	Limits []string // on the route, wherever they stand
	Calls  string   // in the last hour
	Edit   string
	Delete string
}
