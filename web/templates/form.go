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
