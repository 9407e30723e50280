package templates

// PlanPage shows a plan and how its keys use it.
type PlanPage struct {
	Page    Page
	Live    Live
	Trail   []Choice
	Name    string
	Actions []Choice
	Figures []Figure
	Facts   []Fact
	Limits  []PlanLimit
	Shadow  *Trial    // nil without limits in shadow
	Keys    []PlanKey // those with the fullest limits first
	Read    string    // which keys were read, if not all
	All     Choice    // all keys of the plan
}

// PlanLimit is a limit of a plan, and how much of it the keys have used now.
type PlanLimit struct {
	Limit                 string
	Marks                 []string
	Median, High, Highest string // use of half of the keys, of 95 %, of all: at most
	Fullest               Choice // the key with the highest use; its Text is empty for none
	Try                   string // form with a stricter limit in shadow; empty for viewers
}

// PlanKey is a key of a plan, and its fullest limit.
type PlanKey struct {
	Key           Choice
	Badges        []Badge
	Window        Window
	Calls, Denied string // of the last hour
}

// Trial is limits in shadow, and what they would have denied.
type Trial struct {
	Limits []TriedLimit
	Result string
	Keys   []TrialKey // of which calls would have been denied, most first
}

// TrialKey is the part of a trial's result that is one key's.
type TrialKey struct {
	Key          Choice
	Would, Calls string
}

// TriedLimit is a limit in shadow.
type TriedLimit struct {
	Limit   string
	Would   string // calls that it would have denied
	Enforce string // form that takes the mark away; empty for viewers
}
