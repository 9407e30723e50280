package templates

// PoliciesPage shows the policy set.
type PoliciesPage struct {
	Page       Page
	Version    string
	Plans      []PlanRow
	Rules      []RuleRow
	Shared     []Fact
	Audit      string
	Export     string // address of the policy file
	Import     string // address of the form that imports a policy file; empty for viewers
	NewPlan    string // addresses of forms; empty for viewers
	NewRule    string
	EditShared string
	Unfinished bool   // the last save did not reach every shard
	Sync       string // address that completes the save
}

// PlanRow is a plan. Addresses of actions are empty for viewers.
type PlanRow struct {
	Name     string
	Address  string
	Limits   []string
	Mode     string
	Degraded string
	Keys     string
	KeysLink string
	Edit     string
	Create   string
	Delete   string
}

// RuleRow is a route rule.
type RuleRow struct {
	Name    string
	Pattern string
	Cost    string
	Mode    string
	Limits  []string
	Calls   string // in the last hour
	Edit    string
	Delete  string
}
