package main

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/config"
	"tidegate/internal/journal"
	"tidegate/internal/store"
)

// logLevel is the level of the log; LOG_LEVEL sets it.
var logLevel slog.LevelVar

// settings is the function's environment.
type settings struct {
	ValkeyURL string `env:"VALKEY_URL" unset:"required"`

	ValkeyConnectTimeout time.Duration `env:"VALKEY_CONNECT_TIMEOUT" envDefault:"5s"`

	KeyPepper string `env:"KEY_PEPPER" unset:"required"`
	// Name of the first user, an editor.
	AdminUser string `env:"ADMIN_USER" unset:"required, unless ADMIN_USERS or OIDC_ISSUER is set"`
	// The first user's password, of 20 characters at least, where a secret store gives
	// it; it is hashed at the start.
	AdminPassword string `env:"ADMIN_PASSWORD" unset:"this or the next, with ADMIN_USER"`
	// Argon2id hash of the password, in PHC form, of at least 19 MiB, see below.
	AdminPasswordHash string `env:"ADMIN_PASSWORD_HASH"`
	// More users: `name:viewer:HASH` or `name:editor:HASH`, with spaces, line ends or
	// semicolons between them; hashes as above.
	AdminUsers string `env:"ADMIN_USERS" unset:"none"`
	// Address of the dashboard in browsers, `BASE_PATH` included, such as
	// `https://admin.example.com`; ignored without `OIDC_ISSUER`.
	AdminURL string `env:"ADMIN_URL" unset:"required with OIDC_ISSUER"`
	// Networks that may use the dashboard and its API, such as
	// `203.0.113.0/24,2001:db8::/32`; others get 403 for all but `/healthz/live`, see
	// [operations](operations.md).
	AdminNetworks string `env:"ADMIN_NETWORKS" unset:"all"`
	// What the owner of an API key sees of it with the key itself: `api` for
	// `GET /api/v1/self`, `page` for that and the page `/self`, or `off`, see
	// [clients](clients.md#your-own-key).
	OwnerView string `env:"OWNER_VIEW" envDefault:"api"`
	// Networks that may use these two, such as `0.0.0.0/0,::/0` for everybody, where
	// `ADMIN_NETWORKS` is for fewer.
	OwnerNetworks string `env:"OWNER_NETWORKS" unset:"those of ADMIN_NETWORKS"`
	// Path before every page, such as `/prod`.
	BasePath string `env:"BASE_PATH" unset:"none"`
	// A session ends after so long without use, 1m to 720h.
	SessionIdle time.Duration `env:"SESSION_IDLE" envDefault:"30m"`
	// A session ends after so long at the latest, 1m to 720h and no less than
	// `SESSION_IDLE`.
	SessionLifetime  time.Duration `env:"SESSION_LIFETIME" envDefault:"12h"`
	ReservationLease time.Duration `env:"RESERVATION_LEASE" envDefault:"10m"`
	ForeignKeys      bool          `env:"FOREIGN_KEYS" envDefault:"false"`
	// Where changes are kept before they are acknowledged: `s3://BUCKET[/PREFIX]`, with
	// `?region=` and `&endpoint=` where needed, or a folder.
	Journal string `env:"JOURNAL" unset:"none"`
	// While the journal does not answer: `refuse` edits, or `queue` them in Valkey;
	// revocations and bans always act.
	JournalAway string `env:"JOURNAL_AWAY" envDefault:"refuse"`
	// When Valkey lost changes: `ask` on every page, or restore `always`, without being
	// asked.
	JournalRestore string `env:"JOURNAL_RESTORE" envDefault:"ask"`
	// With a journal: entries of the audit leave Valkey when they are older, 744h to
	// 87600h, and are read from the journal.
	AuditRetention time.Duration `env:"AUDIT_RETENTION" unset:"all stay in Valkey"`
	Stage          string        `env:"STAGE" unset:"none"`
	// What is deployed, such as a commit; shown in the settings.
	Release  string     `env:"RELEASE" unset:"none"`
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	OIDC     oidcConfig

	pepper apikey.Pepper
	users  []password.User
	// networks may use the dashboard, ownerNetworks the view of keys' owners; nil means
	// all.
	networks, ownerNetworks []netip.Prefix
}

// The values of OWNER_VIEW.
const (
	ownerOff  = "off"
	ownerAPI  = "api"
	ownerPage = "page"
)

// The values of JOURNAL_AWAY and JOURNAL_RESTORE.
const (
	queueChanges  = "queue"
	refuseChanges = "refuse"
	restoreAlways = "always"
	restoreAsk    = "ask"
)

// readConfig reads and checks the environment, NAME=value strings. Its error names every
// variable that is wrong and says what to do; it repeats no secret.
func readConfig(variables []string) (settings, error) {
	c, problems := config.Read[settings](variables)
	c.check(&problems)
	if err := problems.Err(); err != nil {
		return settings{}, err
	}
	logLevel.Set(c.LogLevel)
	return c, nil
}

func (c *settings) check(problems *config.Problems) {
	if c.ValkeyURL == "" {
		problems.Add("VALKEY_URL", "is not set: give the store's address, such as valkey://127.0.0.1:6379")
	} else if err := store.CheckURL(c.ValkeyURL); err != nil {
		problems.Add("VALKEY_URL", "cannot be used: "+err.Error())
	}
	var err error
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		problems.Add("KEY_PEPPER", "cannot be used: give the 32 or more random characters that "+
			"functions/check has")
	}
	if err := server.CheckBasePath(c.BasePath); err != nil {
		problems.Add("BASE_PATH", err.Error())
	}
	if c.networks, err = config.Networks(c.AdminNetworks); err != nil {
		problems.Add("ADMIN_NETWORKS", err.Error())
	}
	if c.ownerNetworks, err = config.Networks(c.OwnerNetworks); err != nil {
		problems.Add("OWNER_NETWORKS", err.Error())
	}
	if c.OwnerView != ownerOff && c.OwnerView != ownerAPI && c.OwnerView != ownerPage {
		problems.Add("OWNER_VIEW", "must be off, api or page")
	}
	c.checkJournal(problems)
	c.checkDurations(problems)
	c.hashPassword(problems)
	c.checkUsers(problems)
	c.OIDC.check(problems)
	if c.OIDC.Issuer != "" {
		c.checkAddress(problems)
	}
}

func (c *settings) checkJournal(problems *config.Problems) {
	if err := journal.CheckAddress(c.Journal); err != nil {
		problems.Add("JOURNAL", err.Error())
	}
	if c.JournalAway != refuseChanges && c.JournalAway != queueChanges {
		problems.Add("JOURNAL_AWAY", "must be refuse or queue")
	}
	if c.JournalRestore != restoreAsk && c.JournalRestore != restoreAlways {
		problems.Add("JOURNAL_RESTORE", "must be ask or always")
	}
	if c.AuditRetention == 0 {
		return
	}
	if err := config.AuditRetention.Check(c.AuditRetention); err != nil {
		problems.Add("AUDIT_RETENTION", err.Error())
	} else if c.Journal == "" {
		problems.Add("AUDIT_RETENTION", "needs JOURNAL: what leaves Valkey is read from there")
	}
}

func (c *settings) checkDurations(problems *config.Problems) {
	if err := config.ValkeyConnectTimeout.Check(c.ValkeyConnectTimeout); err != nil {
		problems.Add("VALKEY_CONNECT_TIMEOUT", err.Error())
	}
	if err := config.SessionIdle.Check(c.SessionIdle); err != nil {
		problems.Add("SESSION_IDLE", err.Error())
	}
	if err := config.SessionLifetime.Check(c.SessionLifetime); err != nil {
		problems.Add("SESSION_LIFETIME", err.Error())
	}
	if c.SessionLifetime < c.SessionIdle && !problems.Has("SESSION_IDLE") {
		problems.Add("SESSION_LIFETIME", "is shorter than SESSION_IDLE: give at least as much")
	}
	if err := config.ReservationLease.Check(c.ReservationLease); err != nil {
		problems.Add("RESERVATION_LEASE", err.Error())
	}
}

// checkAddress checks ADMIN_URL. The dashboard's address is configured, since a request's
// Host header cannot be trusted.
func (c *settings) checkAddress(problems *config.Problems) {
	if err := oidc.CheckURL(c.AdminURL); err != nil {
		problems.Add("ADMIN_URL", err.Error()+
			": with OIDC_ISSUER give the dashboard's address in browsers, such as https://admin.example.com")
		return
	}
	if u, err := url.Parse(c.AdminURL); err != nil || u.Path != c.BasePath {
		problems.Add("ADMIN_URL", "must end in BASE_PATH, without a slash after it")
	}
}

func (c *settings) dashboard() (server.Config, error) {
	d := server.Config{
		BasePath: c.BasePath, PublicURL: c.AdminURL, Users: c.users, SessionLifetime: c.SessionLifetime,
		OwnerAPI: c.OwnerView != ownerOff, OwnerPage: c.OwnerView == ownerPage,
		Stage: c.Stage, Release: c.Release,
	}
	var err error
	d.Provider, err = c.OIDC.provider(c.AdminURL, c.pepper)
	return d, err
}

// oidcConfig is the part of the environment for an OpenID provider. Without an issuer
// there is none.
type oidcConfig struct {
	// OpenID provider that people may log in at too; register
	// `ADMIN_URL/login/oidc/callback` there, and `ADMIN_URL/login` as the way back from a
	// logout.
	Issuer string `env:"OIDC_ISSUER" unset:"none"`
	// Id that the provider knows the dashboard by; refused without `OIDC_ISSUER`.
	ClientID string `env:"OIDC_CLIENT_ID" unset:"required with OIDC_ISSUER"`
	// Secret that goes with it; refused without `OIDC_ISSUER`.
	ClientSecret string `env:"OIDC_CLIENT_SECRET" unset:"required with OIDC_ISSUER"`
	// Scopes to ask for, with spaces between them; ignored without `OIDC_ISSUER`.
	Scopes []string `env:"OIDC_SCOPES" envSeparator:" " envDefault:"openid profile email"`
	// Claim with somebody's groups, in the id token or at the userinfo endpoint; `a.b`
	// leads into objects; ignored without `OIDC_ISSUER`.
	RoleClaim string `env:"OIDC_ROLE_CLAIM" envDefault:"groups"`
	// What in the claim makes an editor, with commas between them; refused without
	// `OIDC_ISSUER`.
	EditorValues []string `env:"OIDC_EDITOR_VALUES" unset:"this or the next, with OIDC_ISSUER"`
	// What in the claim makes a viewer; whoever has neither gets 403; refused without
	// `OIDC_ISSUER`.
	ViewerValues []string `env:"OIDC_VIEWER_VALUES"`
}

func (c *oidcConfig) check(problems *config.Problems) {
	if c.Issuer == "" {
		if c.ClientID != "" || c.ClientSecret != "" || len(c.EditorValues)+len(c.ViewerValues) > 0 {
			problems.Add("OIDC_ISSUER", "is not set, but other OIDC variables are: give the provider's "+
				"address, or none of them")
		}
		return
	}
	if err := oidc.CheckURL(c.Issuer); err != nil {
		problems.Add("OIDC_ISSUER", err.Error())
	}
	if c.ClientID == "" {
		problems.Add("OIDC_CLIENT_ID", "is not set: give the id that the provider knows this dashboard by")
	}
	if c.ClientSecret == "" {
		problems.Add("OIDC_CLIENT_SECRET", "is not set: give the secret that goes with OIDC_CLIENT_ID")
	}
	if len(c.EditorValues)+len(c.ViewerValues) == 0 {
		problems.Add("OIDC_EDITOR_VALUES",
			"and OIDC_VIEWER_VALUES are not set: name what in OIDC_ROLE_CLAIM makes an editor or a viewer, "+
				"apart by commas")
	}
}

// provider returns the provider; nil without an issuer.
func (c *oidcConfig) provider(publicURL string, pepper apikey.Pepper) (*oidc.Provider, error) {
	if c.Issuer == "" {
		return nil, nil //nolint:nilnil // no provider is a valid choice
	}
	return oidc.New(oidc.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
		RedirectURL: publicURL + "/login/oidc/callback",
		Scopes:      c.Scopes, RoleClaim: c.RoleClaim, EditorValues: c.EditorValues,
		ViewerValues: c.ViewerValues,
	}, pepper)
}
