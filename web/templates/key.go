package templates

// KeyPage shows everything about one key.
type KeyPage struct {
	Page     Page
	Live     Live
	Key      KeyRow
	Facts    []Fact
	Why      []string    // which limits hold, and why, in sentences
	Notes    []string    // what else to know
	Chart    TimeSeries  // recent minutes
	Play     string      // address that plays them to the algorithms; empty without one
	Denials  []DenialRow // the latest, newest first
	Response Response
	Recent   []Entry // of the audit
	Audit    string  // address of all of its audit
	Explain  string  // address that explains a call of it
	Actions  []Choice
}

// DenialRow is calls that were denied in one second.
type DenialRow struct {
	At    Instant
	Ago   string
	Calls string
	Note  string // what is not exact about the instant
}

// Response is what a client gets.
type Response struct {
	Heading string
	Advice  string
	Text    string // status line, headers and body; empty when the backend answers
}
