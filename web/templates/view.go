package templates

// Live is the control of a page's refresh.
type Live struct {
	Self    string // address of the page and of its live section
	Nonce   string
	Seconds int // between refreshes; 0 is off
	Choices []Choice
	AsOf    Instant
	Counted Instant // until when calls are counted; zero on pages without counts
	Denied  string  // of the navigation: how many callers are denied now; may be empty
	Summary string  // announced by screen readers after each change; may be empty
	Outage  string  // what becomes of calls while Valkey does not answer
}

// Range is the control that chooses the period of a page.
type Range struct {
	Choices  []Choice
	Action   string   // address of the page
	Hidden   []Hidden // parameters that the own range keeps
	From, To string   // as the inputs hold them, in UTC
	Text     string   // the chosen period
	Problem  string   // error of the custom range; empty if it is valid
}
