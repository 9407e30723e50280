package main

import (
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"time"

	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/config"
	"tidegate/internal/objects"
	"tidegate/internal/proxies"
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
	// Password of the first user, at least 20 characters, from a secret store; it is
	// hashed at the start.
	AdminPassword string `env:"ADMIN_PASSWORD" unset:"this or the next, with ADMIN_USER"`
	// Argon2id hash of the password in PHC form, of at least 19 MiB, see below.
	AdminPasswordHash string `env:"ADMIN_PASSWORD_HASH"`
	// More users, `name:viewer:HASH` or `name:editor:HASH`, separated by spaces, line
	// ends or semicolons; hashes as above.
	AdminUsers string `env:"ADMIN_USERS" unset:"none"`
	// Address of the dashboard in browsers, `BASE_PATH` included, such as
	// `https://admin.example.com`; ignored without `OIDC_ISSUER`.
	AdminURL string `env:"ADMIN_URL" unset:"required with OIDC_ISSUER"`
	// Networks that may use the dashboard and its API, such as
	// `203.0.113.0/24,2001:db8::/32`; all others get 403 except on `/healthz/live`, see
	// [operations](operations.md).
	AdminNetworks  string `env:"ADMIN_NETWORKS" unset:"all"`
	TrustedProxies string `env:"TRUSTED_PROXIES" unset:"none"`
	// Where the owner of an API key can view it with the key itself: `api` for
	// `GET /api/v1/self`, or `off`, see [backends](backends.md#your-own-key).
	OwnerView string `env:"OWNER_VIEW" envDefault:"api"`
	// Networks that may use the view of `OWNER_VIEW`, such as `0.0.0.0/0,::/0` for
	// everybody.
	OwnerNetworks string `env:"OWNER_NETWORKS" unset:"those of ADMIN_NETWORKS"`
	// Path before every page, such as `/prod`.
	BasePath string `env:"BASE_PATH" unset:"none"`
	// Time without requests after which a session ends, 1m to 720h.
	SessionIdle time.Duration `env:"SESSION_IDLE" envDefault:"30m"`
	// Time after the log-in at which a session ends in any case, 1m to 720h and at least
	// `SESSION_IDLE`.
	SessionLifetime time.Duration `env:"SESSION_LIFETIME" envDefault:"12h"`
	ForeignKeys     bool          `env:"FOREIGN_KEYS" envDefault:"false"`
	// Where the log of changes is, which has all keys and policies: `s3://BUCKET[/PREFIX]`,
	// with `?region=` and `&endpoint=` where needed, or the path of a folder. A Valkey belongs
	// to one log and one `KEY_PEPPER`.
	ChangesLog string `env:"CHANGES_LOG" unset:"required"`
	Stage      string `env:"STAGE" unset:"none"`
	// Deployed release, such as a commit; shown in the settings.
	Release string `env:"RELEASE" unset:"none"`
	// Address of a route behind Tidegate, for the example calls that pages show.
	ExampleURL string `env:"EXAMPLE_URL" unset:"a variable"`
	// ARN of the event bus or topic to which crossed limits are sent, for *Alerts*.
	CrossingsTarget string     `env:"CROSSINGS_TARGET" unset:"nothing sends them"`
	LogLevel        slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	OIDC            oidcConfig

	pepper apikey.Pepper
	users  []password.User
	// networks may use the dashboard, ownerNetworks the view of keys' owners; nil means
	// all.
	networks, ownerNetworks []netip.Prefix
	proxies                 proxies.Trusted
}

// exampleURL matches addresses that mean nothing else inside the quotes of a shell.
var exampleURL = regexp.MustCompile(`^https?://[0-9A-Za-z._~:/?&=%\[\]-]{1,500}$`)

// targetARN matches ARNs of event buses and topics.
var targetARN = regexp.MustCompile(`^arn:[a-z-]+:(events|sns):[a-z0-9-]+:[0-9]{12}:[0-9A-Za-z._/-]{1,256}$`)

// The values of OWNER_VIEW.
const (
	ownerOff = "off"
	ownerAPI = "api"
)

// readConfig reads and checks the environment, NAME=value strings. Its error names every
// invalid variable and says what to do; it contains no secret.
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
	if c.CrossingsTarget != "" && !targetARN.MatchString(c.CrossingsTarget) {
		problems.Add("CROSSINGS_TARGET", "must be the ARN of an event bus or a topic")
	}
	if c.ExampleURL != "" && !exampleURL.MatchString(c.ExampleURL) {
		problems.Add("EXAMPLE_URL", "must be an http or https address, such as https://api.example.com/hello")
	}
	if err := server.CheckBasePath(c.BasePath); err != nil {
		problems.Add("BASE_PATH", err.Error())
	}
	if c.networks, err = config.Networks(c.AdminNetworks); err != nil {
		problems.Add("ADMIN_NETWORKS", err.Error())
	}
	if c.proxies, err = proxies.Parse(c.TrustedProxies); err != nil {
		problems.Add("TRUSTED_PROXIES", err.Error())
	}
	if c.ownerNetworks, err = config.Networks(c.OwnerNetworks); err != nil {
		problems.Add("OWNER_NETWORKS", err.Error())
	}
	if c.OwnerView != ownerOff && c.OwnerView != ownerAPI {
		problems.Add("OWNER_VIEW", "must be off or api")
	}
	if c.ChangesLog == "" {
		problems.Add("CHANGES_LOG", "is not set: give s3://BUCKET or the path of a folder")
	} else if err := objects.CheckAddress(c.ChangesLog); err != nil {
		problems.Add("CHANGES_LOG", err.Error())
	}
	c.checkDurations(problems)
	c.hashPassword(problems)
	c.checkUsers(problems)
	c.OIDC.check(problems)
	if c.OIDC.Issuer != "" {
		c.checkAddress(problems)
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
		OwnerView: c.OwnerView != ownerOff, Proxies: c.proxies,
		Stage: c.Stage, Release: c.Release, ExampleURL: c.ExampleURL,
	}
	var err error
	d.Provider, err = c.OIDC.provider(c.AdminURL, c.pepper)
	return d, err
}

// oidcConfig is the part of the environment for an OpenID provider. Without an issuer
// there is none.
type oidcConfig struct {
	// OpenID provider at which users can log in too; register
	// `ADMIN_URL/login/oidc/callback` there as the redirect URI, and `ADMIN_URL/login` as
	// the post-logout redirect URI (Cognito: allowed sign-out URL), see
	// [providers](deploy.md#openid-connect).
	Issuer string `env:"OIDC_ISSUER" unset:"none"`
	// Client id of the dashboard at the provider; refused without `OIDC_ISSUER`.
	ClientID string `env:"OIDC_CLIENT_ID" unset:"required with OIDC_ISSUER"`
	// Client secret of the dashboard at the provider; refused without `OIDC_ISSUER`.
	ClientSecret string `env:"OIDC_CLIENT_SECRET" unset:"required with OIDC_ISSUER"`
	// Scopes to request, separated by spaces; ignored without `OIDC_ISSUER`.
	Scopes []string `env:"OIDC_SCOPES" envSeparator:" " envDefault:"openid profile email"`
	// Claim with a user's groups, in the id token or at the userinfo endpoint: a text, a list
	// of texts, or an object whose names they are; `a.b` is a path into objects; ignored
	// without `OIDC_ISSUER`.
	RoleClaim string `env:"OIDC_ROLE_CLAIM" envDefault:"groups"`
	// Values of the claim that give the role editor, separated by commas; compared whole, case
	// included; refused without
	// `OIDC_ISSUER`.
	EditorValues []string `env:"OIDC_EDITOR_VALUES" unset:"this or the next, with OIDC_ISSUER"`
	// Values of the claim that give the role viewer, separated by commas; a user with no
	// role gets 403; refused without `OIDC_ISSUER`.
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
		problems.Add("OIDC_CLIENT_ID", "is not set: give the dashboard's client id at the provider")
	}
	if c.ClientSecret == "" {
		problems.Add("OIDC_CLIENT_SECRET", "is not set: give the dashboard's client secret at the provider")
	}
	if len(c.EditorValues)+len(c.ViewerValues) == 0 {
		problems.Add("OIDC_EDITOR_VALUES",
			"and OIDC_VIEWER_VALUES are not set: give the values of OIDC_ROLE_CLAIM for editors or viewers, "+
				"separated by commas")
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
