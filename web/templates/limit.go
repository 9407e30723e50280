package templates

import "strings"

// Window is a limit and its current usage.
type Window struct {
	Limit      string   // 100 per 10 seconds
	Marks      []string // differences from the default, an exact log: counter, shadow, …
	Counted    string   // "exact", or the marks
	Used       string
	Of         string
	Remaining  string
	Share      string  // of the limit, in percent: 0 to 100, for a width in SVG
	Level      string  // free, near or full
	Note       string  // Level in words, or what is owed; empty if free
	Since      Instant // when counting began, if that is within the window
	Resets     string
	ResetsLeft string // seconds, for a script that counts down
	RetryLeft  string // seconds, for a script that counts down
	RetryAfter string
}

// LimitList is the form's list of limits.
type LimitList struct {
	ID     string
	Legend string
	Advice string
	Error  string // error of the list as a whole
	Rows   []LimitRow
	Add    string // value of the button that adds a row; empty for a full list
}

// LimitChoices are the options of every row.
type LimitChoices struct {
	Units   []Option
	Methods []Option
	Modes   []Option
	Counts  []Option
	Slots   string // default number of slots of a log
	Bounds  string
}

// LimitRow is a limit in the form.
type LimitRow struct {
	Number    string // 1, 2, …
	Field     string // prefix of the fields' names, such as limits[0]
	ID        string // prefix of the fields' ids, such as limits-0
	Remove    string // value of the button that removes the row; empty for a required row
	Requests  Field
	Window    Field
	Unit      Field
	Algorithm Field
	More      bool // one of the optional fields below is set or invalid
	Denied    Field
	Shared    bool // a shared limit, which should not count denied calls
	Slots     Field
	Notify    Field // alert thresholds, in percent of the limit
	Zone      Field
	HasMode   bool // the limit may have a mode of its own
	Mode      Field
	Counts    Field  // cost or calls
	Preview   string // the limit in words; empty if it is invalid
}

// inputs returns the ids of the fields that the row's preview describes.
func (r LimitRow) inputs() string {
	names := []string{"requests", "window", "unit", "algorithm", "zone", "slots", "notify", "counts"}
	if r.HasMode {
		names = append(names, "mode")
	}
	if r.offersDenied() {
		names = append(names, "countDenied")
	}
	return r.ID + "-" + strings.Join(names, " "+r.ID+"-")
}

// offersDenied reports whether the row has a box to count denied calls. A shared limit
// has it only if it is checked, to clear it.
func (r LimitRow) offersDenied() bool {
	return !r.Shared || r.Denied.Value != "" || r.Denied.Error != ""
}

// optional names the fields that are collapsed at first.
func (r LimitRow) optional() string {
	fields := "time zone, slots, alerts, what it counts"
	if r.HasMode {
		fields += ", mode"
	}
	if r.offersDenied() {
		fields += ", denied calls"
	}
	return fields
}
