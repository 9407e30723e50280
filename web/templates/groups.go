package templates

// GroupPage shows a group of keys.
type GroupPage struct {
	Page    Page
	Name    string
	Reset   string // address that resets the counts; empty for those who may not
	AsOf    Instant
	Limits  []GroupLimits
	Keys    []GroupKey
	All     Choice // leads to all keys
	Denials []DenialRow
	// AllDenials is the address of the group's part of the denial log.
	AllDenials string
	Audit      string // address of the history of resets
}

// GroupLimits are one plan's limits on a group.
type GroupLimits struct {
	Plan    string
	Mode    string // what to know of it; empty when the limits are enforced
	Windows []Window
}

// GroupKey is a key of a group.
type GroupKey struct {
	Name    string
	Address string
	Plan    string
	Badges  []Badge
}
