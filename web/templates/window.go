package templates

// Window is the state of one limit of a key.
type Window struct {
	Limit      string   // 100 per 10 seconds
	Marks      []string // how it differs from a log: counter, denied calls count, …
	Counted    string   // exact, or the marks
	Used       string
	Of         string
	Remaining  string
	Share      string // of the limit, in percent: 0 to 100, a number that SVG takes as a width
	Percent    string // the same for people
	Level      string // free, near or full
	Note       string // the level in words; empty when free
	Resets     string
	ResetsLeft string // seconds, for a script that counts down; 0 when it is empty
	RetryLeft  string // likewise
	RetryAfter string
}
