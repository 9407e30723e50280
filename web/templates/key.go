package templates

// KeyPage shows everything about one key.
type KeyPage struct {
	Page       Page
	Trail      []Choice
	Live       Live
	Range      Range
	Key        KeyRow
	Facts      []Fact
	Diagnosis  Diagnosis
	Limits     []AppliedRow // every limit that calls of the key fall under
	Unused     []AppliedRow // those on routes that have counted no call
	Why        []string     // which limits apply and why, in sentences, if it is not the plan
	Notes      []string     // other information
	Chart      TimeSeries
	Denials    Table // the latest, newest first
	Response   Response
	Recent     Table  // newest entries of the audit log
	Audit      string // address of the key's audit log
	AllDenials string // address of the key's denials
	AllAlerts  string // address of the key's alerts
	Explain    string // address that explains a call
	Actions    KeyActions
}

// KeyActions are the changes of a key that its state allows; none for viewers. A menu has
// More and, set apart, Danger.
type KeyActions struct{ Shown, More, Danger []Choice }

// Diagnosis says what denied or refused the key's calls lately: "N calls denied since
// Since, By; last Last. State. Demand".
type Diagnosis struct {
	Calls       string // with what became of them; empty if none was
	Since, Last Instant
	By          string
	More        string // what the figures leave out; empty for nothing
	State       string // what the next call gets
	Left        string // seconds until it passes, for a script that counts down
	Wait        string // the same in words, which follow State; empty if it passes
	Demand      string // how much the key sends, if that is more than its limit allows
	Level       string // bad if calls are denied now; else empty
}

// Dot returns the class of the sign before the sentence.
func (d Diagnosis) Dot() string {
	switch {
	case d.Level == "bad":
		return "denied"
	case d.Calls != "":
		return "near"
	}
	return ""
}

// Response is the response that a client receives.
type Response struct {
	Heading string
	Advice  string
	Text    string // status line, headers and body, or only the headers
}
