package templates

// Activity describes the calls of a key or caller in the last hour.
type Activity struct {
	Calls, Denied   string
	Refused, Shadow string // empty for none; Shadow: limits in shadow would have denied them
	Used            string // time since the last call
}

// KeyRow names a key, with its badges and the use of its limits.
type KeyRow struct {
	ID      string
	Name    string
	Address string
	Tags    []string
	Badges  []Badge
	Windows []Window
}
