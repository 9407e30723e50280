package templates

// SimulatePage compares algorithms on made-up or recorded traffic.
type SimulatePage struct {
	Page    Page
	Tabs    []Choice
	Presets []Choice
	Form    SimulationForm
	Errors  int         // how many fields are wrong
	Result  *Simulation // nil while a field is wrong
}

// SimulationForm is the experiment as it was typed.
type SimulationForm struct {
	Action          string
	Limit           Field
	Window          Field
	Unit            Field
	Shape           Field
	Rate            Field
	Windows         Field
	Seed            Field
	Minutes         Field
	Passed          string // of the recorded calls; empty when nobody knows
	Units           []Option
	Shapes          []Option
	Recorded        bool // the recorded shape is chosen
	Algorithms      []Check
	AlgorithmsError string
	Bounds          string
}

// Check is a box that can be ticked.
type Check struct {
	ID        string
	Value     string
	Text      string
	Checked   bool
	Published bool // an algorithm of somebody else
}

// Simulation is what an experiment gave.
type Simulation struct {
	Verdict string // what the limit would do, in a sentence
	Traffic string // what calls they are
	Chart   Lines
	Rows    []SimulationRow
	Notes   []AlgorithmNote
}

// SimulationRow is what one algorithm made of the calls.
type SimulationRow struct {
	Series       string // class of its line
	Algorithm    string
	Admitted     string
	FalseAllows  string
	FalseDenials string
	Worst        string // the fullest rolling window
	Over         string // how far it is over the limit
	At           string // when it ended
	Level        string // kept or broken
}

// AlgorithmNote says what one sees.
type AlgorithmNote struct {
	Title  string
	Text   string
	Source string // where it was published; empty if it is ours
}

// anyPublished reports whether a ticked box is one of those that stay folded away
// otherwise.
func anyPublished(checks []Check) bool {
	for _, c := range checks {
		if c.Published && c.Checked {
			return true
		}
	}
	return false
}
