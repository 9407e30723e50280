package templates

import "strings"

// LimitList is a list of limits as it was typed.
type LimitList struct {
	ID     string
	Legend string
	Advice string
	Error  string // what is wrong with the list as a whole
	Rows   []LimitRow
	Add    string // value of the button that adds a row; empty when there are as many as may be
}

// LimitChoices are what every row offers.
type LimitChoices struct {
	Units   []Option
	Methods []Option
	Modes   []Option
	Slots   string // of a log whose row says nothing of them
	Bounds  string
}

// LimitRow is one limit as it was typed.
type LimitRow struct {
	Number    string // 1, 2, …
	Field     string // limits[0]: the prefix of its fields' names
	ID        string // limits-0: the prefix of its fields' ids
	Remove    string // value of the button that takes it away; empty when it is the only one
	Requests  Field
	Window    Field
	Unit      Field
	Algorithm Field
	More      bool // one of the rarer fields, which follow, is set or wrong
	Denied    Field
	Shared    bool // several callers share the limit: denied calls must not count
	Slots     Field
	Notify    Field // percentages of the limit that are reported
	Zone      Field
	HasMode   bool // the limit may be in shadow mode by itself
	Mode      Field
	Preview   string // the limit in words; empty while it has errors
}

// inputs lists the ids of the row's fields, which its preview comes from.
func (r LimitRow) inputs() string {
	names := []string{"requests", "window", "unit", "algorithm", "zone", "slots", "notify"}
	if r.HasMode {
		names = append(names, "mode")
	}
	if r.offersDenied() {
		names = append(names, "countDenied")
	}
	return r.ID + "-" + strings.Join(names, " "+r.ID+"-")
}

// offersDenied reports whether the row has a field for denied calls: on a limit that
// callers share only to clear it.
func (r LimitRow) offersDenied() bool {
	return !r.Shared || r.Denied.Value != "" || r.Denied.Error != ""
}

// rarer names the fields that are folded away.
func (r LimitRow) rarer() string {
	fields := "time zone, slots, alerts"
	if r.HasMode {
		fields += ", mode"
	}
	if r.offersDenied() {
		fields += ", denied calls"
	}
	return fields
}
