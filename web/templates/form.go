package templates

// FormPage is a page around one form.
type FormPage struct {
	Page     Page
	Trail    []Choice // where the page stands
	Heading  string
	Name     string // what the form is about, as somebody named it; empty if nothing
	Lead     []string
	Secret   *Secret
	Conflict *Conflict
	Preview  *Preview
	Form     *Form // nil when there is nothing left to send
}

// Form is what somebody may send.
type Form struct {
	Action  string
	Hidden  []Hidden
	Error   string   // what is wrong as a whole
	Errors  int      // how many fields are wrong
	Notes   []string // what to know before sending it
	Warning *Warn    // what to confirm by sending it again; nil for nothing
	Fields  []FormField
	Lists   []LimitList
	Choices LimitChoices // of the rows of all lists
	After   []FormField  // below the lists
	Effects []string     // what sending it would do
	Preview bool         // offers to look before saving
	Submit  string
	Danger  bool // it cannot be taken back
	Auto    bool // the script sends it at once, again and again: a step of a long job
	Cancel  Choice
}

// Warn is harm that a form would do. Sending its Accepted back confirms that it was read.
type Warn struct {
	Texts    []string
	Accepted Hidden
}

// Hidden is a field that nobody sees.
type Hidden struct{ Name, Value string }

// FormField is a field with its label.
type FormField struct {
	ID      string // also its name
	Label   string
	Kind    FieldKind
	Options []Option // of a choice
	Hint    string
	Sample  string // shown while it is empty
	Max     string // characters
	Rows    string // of an area; 3 when it is empty
	Field   Field
	Hidden  Hidden // sent along; without a name none is
}

// FieldKind is how a field is filled in.
type FieldKind string

// The kinds of fields.
const (
	TextField   FieldKind = "text"
	NumberField FieldKind = "number"
	AreaField   FieldKind = "area"
	ChoiceField FieldKind = "choice"
	CheckField  FieldKind = "check" // its value is empty or not
	TimeField   FieldKind = "time"  // a date and a time of day, in UTC
)

// LimitList is a list of limits as it was typed.
type LimitList struct {
	ID     string
	Legend string
	Advice string
	Error  string // what is wrong with the list as a whole
	Rows   []LimitRow
	Add    string // value of the button that adds a row; empty when there are as many as may be
}

// LimitChoices are what every row offers.
type LimitChoices struct {
	Units   []Option
	Methods []Option
	Modes   []Option
	Slots   string // of a log whose row says nothing of them
	Bounds  string
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
	ID        string // limits-0: the prefix of its fields' ids
	Remove    string // value of the button that takes it away; empty when it is the only one
	Requests  Field
	Window    Field
	Unit      Field
	Algorithm Field
	More      bool // one of the rarer fields, which follow, is set or wrong
	Denied    Field
	Shared    bool // several callers share the limit: denied calls must not count
	Slots     Field
	Notify    Field // percentages of the limit that are reported
	Zone      Field
	HasMode   bool // the limit may be in shadow mode by itself
	Mode      Field
	Preview   string // the limit in words; empty while it has errors
}

// Field is what was typed, and what is wrong with it.
type Field struct {
	Value string
	Error string
}

// Conflict shows an edit next to the one that was saved meanwhile.
type Conflict struct {
	Theirs []string
	Yours  []string
	By     string
	Saved  Instant
	Keep   string // address that drops the edit
}

// Preview is what an edit would do.
type Preview struct {
	Changes []Change
	Effects []string
}

// Change is one thing that differs.
type Change struct {
	What   string
	Before string
	After  string
}

// Secret is shown once.
type Secret struct {
	Heading string
	Text    string
	Advice  []string
}
