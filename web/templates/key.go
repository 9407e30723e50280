package templates

// KeyPage shows everything about one key.
type KeyPage struct {
	Page     Page
	Live     Live
	Range    Range
	Key      KeyRow
	Facts    []Fact
	Why      []string // which limits hold, and why, in sentences
	Notes    []string // what else to know
	Chart    TimeSeries
	Play     string      // address that plays its calls to the algorithms; empty without one
	Denials  []DenialRow // the latest, newest first
	Refused  []Figure    // its refused calls by cause
	Response Response
	Recent   []Entry // of the audit
	Audit    string  // address of all of its audit
	// AllDenials is the address of its part of the denial log.
	AllDenials string
	AllAlerts  string // address of its crossed limits
	Explain    string // address that explains a call of it
	Actions    []Choice
}

// Response is what a client gets.
type Response struct {
	Heading string
	Advice  string
	Text    string // status line, headers and body; empty when the backend answers
}
