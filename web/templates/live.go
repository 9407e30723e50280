package templates

// Live is the state and the choices of the live refresh.
type Live struct {
	Self    string // address of this page, and of its live section
	Nonce   string
	Seconds int // between refreshes; 0 is off
	Choices []Choice
	AsOf    Instant
	Summary string // what a screen reader says of each change, in a few words; empty for nothing
}
