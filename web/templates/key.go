package templates

// KeyPage shows everything about one key.
type KeyPage struct {
	Page     Page
	Live     Live
	Range    Range
	Key      KeyRow
	Facts    []Fact
	Why      []string // which limits apply, and why, in sentences
	Notes    []string // other information
	Chart    TimeSeries
	Play     string      // address that simulates the key's calls; may be empty
	Denials  []DenialRow // the latest, newest first
	Refused  []Figure    // refused calls by cause
	Response Response
	Recent   []Entry // newest entries of the audit
	Audit    string  // address of the key's audit
	// AllDenials is the address of the key's denials.
	AllDenials string
	AllAlerts  string // address of the key's crossed limits
	Explain    string // address that explains a call
	Actions    []Choice
}

// Response is the response that a client receives.
type Response struct {
	Heading string
	Advice  string
	Text    string // status line, headers and body, or only the headers
}
