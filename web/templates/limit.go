package templates

// Window is a limit and its current usage.
type Window struct {
	Limit     string   // 100 per 10 seconds
	Marks     []string // differences from the default, an exact log: counter, shadow, …
	Counted   string   // "exact", or the marks
	Used      string
	Of        string
	Remaining string
	Share     string  // of the limit, in percent: 0 to 100, for a width in SVG
	Level     string  // free, near or full
	Note      string  // Level in words, or what is owed; empty if free
	Forecast  string  // when the limit is full at the present rate; empty if it lasts
	Since     Instant // when counting began, if that is within the window
	// Resets and Unblocks are how long the limit counts what it has, and denies. The Left
	// ones are the same in seconds, for a script that counts down; empty for none.
	Resets, ResetsLeft     string
	Unblocks, UnblocksLeft string
}

// LimitList is the form's list of limits.
type LimitList struct {
	ID     string
	Legend string
	Advice string
	Error  string // error of the list as a whole
	Rows   []LimitRow
	Add    string // value of the button that adds a limit; empty for a full list
	Most   string // number of limits of a full list
	Rare   bool   // few set it: it is folded while it is empty
}

// filled reports whether the list has a limit, an error or a row that was added.
func (l LimitList) filled() bool {
	return l.Error != "" || len(l.Rows) > 1 || len(l.Rows) == 1 && l.Rows[0].Field != Field{}
}

// LimitRow is a limit in the form, which is one input.
type LimitRow struct {
	Number  string // 1, 2, …
	Name    string // of the field, such as limits[0]
	ID      string // such as limits-0
	Max     string // maximum number of characters
	Field   Field
	Meaning string // what the limit does; empty if it is blank or invalid
}

// LimitSample is a limit in the form's notation, and what it does.
type LimitSample struct{ Text, Meaning string }
