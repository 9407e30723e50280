package audit

// The actions that entries record. The word before the first dot names the kind of
// subject.
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
	KeyExpire      = "key.secret.expire" // of the secret before
	KeyBan         = "key.ban"
	KeyUnban       = "key.unban"
	KeyReset       = "key.reset"
	KeyRevert      = "key.revert"
	KeyDelete      = "key.delete"
	GroupReset     = "group.reset"
	PolicySave     = "policy.save"
	PolicyRepair   = "policy.repair"
	TokenCreate    = "token.create"
	TokenRevoke    = "token.revoke"
	Login          = "login"
	LoginRefused   = "login.refused"
	JobStart       = "job.start" // of a change of many keys
	JobEnd         = "job.end"
	JournalRestore = "journal.restore"
)

// Prefixes of actions.
const (
	OfKeys   = "key."
	OfPolicy = "policy."
	OfTokens = "token."
	OfJobs   = "job."
)

// LoginSubject is the subject of entries about log-ins.
const LoginSubject = "login"

// JournalSubject is the subject of entries about restores.
const JournalSubject = "journal"
