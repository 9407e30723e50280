package templates

// KeyPage shows everything about one key.
type KeyPage struct {
	Page       Page
	Live       Live
	Range      Range
	Key        KeyRow
	Facts      []Fact
	Replaced   []Window // the plan's limits while an override is in force
	Why        []string // which limits apply and why, in sentences
	Notes      []string // other information
	Chart      TimeSeries
	Play       string      // address that simulates the key's recorded calls; may be empty
	Denials    []DenialRow // the latest, newest first
	Refused    []Figure    // refused calls by cause
	Response   Response
	Recent     []Entry // newest entries of the audit log
	Audit      string  // address of the key's audit log
	AllDenials string  // address of the key's denials
	AllAlerts  string  // address of the key's alerts
	Explain    string  // address that explains a call
	Actions    []Choice
}

// Response is the response that a client receives.
type Response struct {
	Heading string
	Advice  string
	Text    string // status line, headers and body, or only the headers
}
