package templates

// LimitsPage edits the limits of one key.
type LimitsPage struct {
	Page     Page
	Name     string
	Key      string // address of the key's page
	Action   string // address of the form
	Version  string // of the key that the edit is based on
	Rows     []LimitRow
	Units    []Option
	Methods  []Option
	Slots    string // of a log whose row says nothing of them
	Error    string // what is wrong with the limits as a whole
	Errors   int    // how many fields are wrong
	Bounds   string
	CanAdd   bool
	Conflict *Conflict
}

// Option is a choice of a select.
type Option struct {
	Value string
	Text  string
	Mark  string // what the preview says of it; empty if nothing
}

// LimitRow is one limit as it was typed.
type LimitRow struct {
	Number    string // 1, 2, …
	Field     string // limits[0]: the prefix of its fields' names
	ID        string // limit-0: the prefix of its fields' ids
	Remove    string // value of the button that takes it away; empty when it is the only one
	Requests  Field
	Window    Field
	Unit      Field
	Algorithm Field
	More      bool // one of the rarer fields, which follow, is set or wrong
	Denied    Field
	Slots     Field
	Zone      Field
	Preview   string // the limit in words; empty while it has errors
}

// Field is what was typed, and what is wrong with it.
type Field struct {
	Value string
	Error string
}

// Conflict shows an edit beside the one that was saved meanwhile.
type Conflict struct {
	Theirs []string
	Yours  []string
	Saved  Instant
	Keep   string // address that drops the edit
}
