package templates

// KeyPage shows everything about one key.
type KeyPage struct {
	Page     Page
	Live     Live
	Key      KeyRow
	Env      string
	Version  string
	Created  Instant
	Updated  Instant
	Source   string // where the limits came from, in a sentence
	EditLink string // address of the form; empty when the limits cannot be edited
}
