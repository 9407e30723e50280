package templates

// Window is a limit and its current usage.
type Window struct {
	Limit    string   // 100 per 10 seconds
	For      string   // each caller
	Marks    []string // on search, counter, shadow, …; without For
	Used     string
	Of       string
	Share    string // of the limit, in percent: 0 to 100, for a width in SVG
	Level    string // free, near or full
	Note     string // Level in words, or what is owed; empty if free
	Forecast string // when the limit is full at the present rate; empty if it lasts
	// Frees and Unblocks are how long until the limit has more room, and until it denies no
	// more. The Left ones are the same in seconds, for a script that counts down; empty for
	// none.
	Frees, FreesLeft       string
	Unblocks, UnblocksLeft string
}

// Line is a line of an area: a limit, and what it does or what is wrong with it.
type Line struct{ Text, Meaning, Error string }
