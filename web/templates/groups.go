package templates

// GroupsPage lists groups of keys.
type GroupsPage struct {
	Page   Page
	Submit string // address of the search
	Text   string // start of the names
	Note   string // that there are more; empty if there are not
	Rows   []GroupRow
}

// GroupRow is a group in a list.
type GroupRow struct {
	Name     string
	Address  string
	Keys     string
	Override string // in words; empty for none
}

// GroupPage shows a group of keys.
type GroupPage struct {
	Page       Page
	Trail      []Choice
	Name       string
	Actions    []Choice // changes of the group; none for viewers
	Override   string   // of its keys, in words; empty for none
	AsOf       Instant
	Limits     []AppliedRow
	Keys       []GroupKey
	All        Choice // link to all keys of the group
	Denials    []DenialRow
	AllDenials string // address of the group's denials
	Audit      string // address of the resets in the audit log
}

// GroupKey is a key of a group.
type GroupKey struct {
	Name    string
	Address string
	Plan    string
	Badges  []Badge
}
