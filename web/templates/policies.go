package templates

// PoliciesPage shows the policy set.
type PoliciesPage struct {
	Page     Page
	Version  string
	Plans    Table
	Routes   Table
	Limits   []PlanLimit  // of all callers, but those in shadow, which have no use
	Shadow   []TriedLimit // of all callers
	Since    string       // since when Shadow is counted; empty without any
	Everyone []Fact       // what else applies to all callers
	Audit    string
	Export   string // address of the policy file
	Files    []Choice
	Import   string // address of the form that imports a policy file; empty for viewers
	NewPlan  string // addresses of forms; empty for viewers
	NewRoute string
	EditAll  string
}
