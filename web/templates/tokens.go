package templates

// TokensPanel lists machine tokens and makes new ones. Only editors get it.
type TokensPanel struct {
	Rows   []TokenRow
	Create string // address of the form
	Name   Field
	Scope  Field
	Scopes []Option
	Days   Field
	Lives  []Option
	Error  string // what is wrong with the form as a whole
}

// TokenRow is one machine token.
type TokenRow struct {
	ID      string
	Name    string
	Scope   string
	By      string
	Used    string // empty if never
	Expires Instant
	Expired bool
	Revoke  string // address that revokes it
}

// MadeToken is a token that was made just now, with its secret.
type MadeToken struct {
	Name    string
	Secret  string
	Expires Instant
}
