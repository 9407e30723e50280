package templates

// Choice is a link, or one of several links of which one is current.
type Choice struct {
	Text    string
	Address string
	Current bool
}

// Instant is a time as text and for programs.
type Instant struct {
	Text    string // 2026-11-21 00:13:25 UTC
	Machine string // RFC 3339
}

// Clock returns the time without the date: 00:13 UTC.
func (i Instant) Clock() string {
	if len(i.Text) < len("2006-01-02 15:04:05") {
		return i.Text
	}
	return i.Text[len("2006-01-02 "):len("2006-01-02 15:04")] + " UTC"
}

// Fact is a named value.
type Fact struct {
	Name    string
	Value   string
	Address string // of the value's page; may be empty
}

// Badge is a state of a key.
type Badge struct {
	Text   string
	Detail string
	Level  string // free, near, full, off or tag
	State  string // value of the key list's filter that finds such keys
}

// Empty is shown in place of an empty list.
type Empty struct {
	Heading string
	Advice  string
	Command string // command line to try; may be empty
}

// Phrase is a part of a sentence: a text or a time, which After follows.
type Phrase struct {
	Text    string
	At      Instant
	After   string
	Strong  bool
	Address string // of what the text names; may be empty
}

// KeyChoices are the keys that a typed name matches.
type KeyChoices struct {
	Lead string
	Keys []KeyChoice
}

// KeyChoice is one of KeyChoices.
type KeyChoice struct{ Name, ID, Address string }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
