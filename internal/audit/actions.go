package audit

// The actions that entries tell of. What comes before the first dot is what was changed.
const (
	KeyCreate      = "key.create"
	KeyAdopt       = "key.adopt"
	KeyEdit        = "key.edit"
	KeyPlan        = "key.plan"
	KeyOverride    = "key.override"
	KeyOverrideEnd = "key.override.end"
	KeyRevoke      = "key.revoke"
	KeyUnrevoke    = "key.unrevoke"
	KeyRotate      = "key.rotate"
	KeyBan         = "key.ban"
	KeyUnban       = "key.unban"
	KeyReset       = "key.reset"
	KeyRevert      = "key.revert"
	KeyDelete      = "key.delete"
	PolicySave     = "policy.save"
	PolicyRepair   = "policy.repair"
	TokenCreate    = "token.create"
	TokenRevoke    = "token.revoke"
	Login          = "login"
	LoginRefused   = "login.refused"
	JournalRestore = "journal.restore"
)

// Beginnings of actions.
const (
	OfKeys   = "key."
	OfPolicy = "policy."
	OfTokens = "token."
)

// LoginSubject is what the entries of log-ins go by.
const LoginSubject = "login"

// JournalSubject is what the entries of restores go by.
const JournalSubject = "journal"
