package templates

// SimulatePage compares algorithms on generated or recorded traffic.
type SimulatePage struct {
	Page    Page
	Tabs    []Choice
	Presets []Choice
	Form    SimulationForm
	Errors  int         // number of invalid fields
	Result  *Simulation // nil if a field is invalid
}

// SimulationForm is the form of a simulation.
type SimulationForm struct {
	Action          string
	Limit           Field
	Samples         []LimitSample
	Shape           Field
	Rate            Field
	Windows         Field
	Seed            Field
	Minutes         Field
	Passed          string // number of recorded calls that were allowed; empty if unknown
	Shapes          []Option
	Recorded        bool // recorded traffic is chosen
	Algorithms      []Check
	AlgorithmsError string
	Bounds          string
}

// Check is a checkbox.
type Check struct {
	ID      string
	Value   string
	Text    string
	Checked bool
}

// Simulation is the result of a simulation.
type Simulation struct {
	Verdict string // how many calls the limit allows, in a sentence
	Traffic string // the simulated calls in words
	Chart   Lines
	Rows    []SimulationRow
	Notes   []AlgorithmNote
}

// SimulationRow is the result of an algorithm.
type SimulationRow struct {
	Series       string // CSS class of its line
	Algorithm    string
	Admitted     string
	FalseAllows  string
	FalseDenials string
	Worst        string // the fullest rolling window
	Over         string // how far Worst exceeds the limit
	At           string // end of that window
	Level        string // "kept" or "broken"
}

// AlgorithmNote explains the result of an algorithm.
type AlgorithmNote struct {
	Title string
	Text  string
}

// CallsPage shows the decisions of limits on calls at given times.
type CallsPage struct {
	Page    Page
	Tabs    []Choice
	Action  string
	Limits  Field
	Samples []LimitSample
	Times   Field
	Sample  string // list of times
	Errors  int
	Bounds  string
	Summary string
	Rows    []CallRow
}

// CallRow is a simulated call and its decision.
type CallRow struct {
	Number     string
	At         string
	Allowed    bool
	Remaining  string
	By         string // the limit that a client is told of
	RetryAfter string // empty if allowed
	Again      string // when RetryAfter ends
}
