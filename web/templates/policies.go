package templates

// PoliciesPage shows all configuration except keys.
type PoliciesPage struct {
	Page       Page
	Version    string
	Plans      []PlanRow
	Rules      []RuleRow
	Shared     []Fact
	Audit      string
	Export     string // address of the policies as a file
	Import     string // address of the form that takes one; empty when nothing can be changed
	NewPlan    string // addresses of forms; empty when nothing can be changed
	NewRule    string
	EditShared string
	// limits that callers share and that count denied calls; without an address when
	// nothing can be changed
	Denied     []Choice
	Unfinished bool   // checks may obey the version before
	Sync       string // address that finishes the save
}

// PlanRow is one plan.
type PlanRow struct {
	Name            string
	Limits          []string
	Mode            string
	Degraded        string
	Keys            string
	KeysLink        string
	Candidate       []string
	CandidateResult string // what the candidate would have denied
	Edit            string
	Create          string
	Delete          string
	Promote         string
	Drop            string
}

// RuleRow is one route rule.
type RuleRow struct {
	Name    string
	Pattern string
	Cost    string
	Mode    string
	Limits  []string
	Calls   string // of the last hour
	Edit    string
	Delete  string
}
