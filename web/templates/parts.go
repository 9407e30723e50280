package templates

// Choice is one of several links of which one is current.
type Choice struct {
	Text    string
	Address string
	Current bool
}

// Instant is a moment for people and for machines.
type Instant struct {
	Text    string // 2026-11-21 00:13:25 UTC
	Machine string // RFC 3339
}

// Fact is something to know.
type Fact struct {
	Name    string
	Value   string
	Address string // where the value leads; empty for nowhere
}

// Badge is something to know of a key at a glance.
type Badge struct {
	Text   string
	Detail string
	Level  string // free, near, full, off or tag
	State  string // what the list can be narrowed to
}

// Empty says why a list holds nothing.
type Empty struct {
	Heading string
	Advice  string
	Command string // a command line to try
}

// KeyChoices are keys that a text names.
type KeyChoices struct {
	Lead string
	Keys []KeyChoice
}

// KeyChoice is one of them.
type KeyChoice struct{ Name, ID, Address string }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
