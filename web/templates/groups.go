package templates

// GroupPage shows a group of keys.
type GroupPage struct {
	Page       Page
	Trail      []Choice
	Name       string
	Actions    []Choice // changes of the group; none for viewers
	Override   string   // of its keys, in words; empty for none
	AsOf       Instant
	Limits     []AppliedRow
	Keys       Table
	All        Choice // link to all keys of the group
	Denials    Table
	AllDenials string // address of the group's denials
	Audit      string // address of the resets in the audit log
}
