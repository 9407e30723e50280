package templates

// SettingsPage shows who somebody is here, their sessions, the machine tokens and the
// deployment.
type SettingsPage struct {
	Page        Page
	Account     []Fact
	Sessions    []SessionRow
	EndSessions string // address that logs out everywhere
	Tokens      *TokensPanel
	Made        *MadeToken
	Deployment  []Fact
	OpenAPI     string // address of the description of the API
}

// Fact is something to know.
type Fact struct {
	Name    string
	Value   string
	Address string // where the value leads; empty for nowhere
}

// SessionRow is one session.
type SessionRow struct {
	Agent   string
	Started Instant
	Ends    Instant
	Current bool
}

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
