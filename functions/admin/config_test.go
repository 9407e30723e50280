package main

import (
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"tidegate/functions/admin/auth"
	"tidegate/internal/config"
	"tidegate/internal/testing/oidctest"
)

const testHash = "$argon2id$v=19$m=19456,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" +
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func environment(changes ...string) []string {
	return append([]string{
		"VALKEY_URL=valkey://127.0.0.1:6379",
		"KEY_PEPPER=" + strings.Repeat("p", 32),
		"CHANGES_LOG=changes",
		"ADMIN_USER=ada",
		"ADMIN_PASSWORD_HASH=" + testHash,
	}, changes...)
}

func TestReadConfig(t *testing.T) {
	c, err := readConfig(environment())
	if err != nil {
		t.Fatal(err)
	}
	if c.SessionIdle != config.DefaultSessionIdle || c.SessionLifetime != config.DefaultSessionLifetime ||
		c.BasePath != "" || c.LogLevel != slog.LevelInfo {
		t.Errorf("defaults: got %v %v %q %v, want 30m, 12h, no base path, info", c.SessionIdle,
			c.SessionLifetime, c.BasePath, c.LogLevel)
	}
	c, err = readConfig(environment("BASE_PATH=/prod", "SESSION_IDLE=5m", "SESSION_LIFETIME=1h",
		"LOG_LEVEL=debug"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.dashboard()
	if err != nil || d.BasePath != "/prod" || d.SessionLifetime != time.Hour ||
		c.SessionIdle != 5*time.Minute || d.Provider != nil ||
		len(d.Users) != 1 || d.Users[0].Name != "ada" || d.Users[0].Role != auth.Editor {
		t.Errorf("got %+v, %v, want the values of the environment", d, err)
	}
	if logLevel.Level() != slog.LevelDebug {
		t.Errorf("got log level %v, want debug", logLevel.Level())
	}
}

// An error names the variable, says what to do, and contains no secret.
func TestBadConfig(t *testing.T) {
	for change, advice := range map[string]string{
		"VALKEY_URL=":                          "valkey://127.0.0.1:6379",
		"KEY_PEPPER=short-secret":              "32 or more",
		"ADMIN_USER=":                          "name to log in with",
		"ADMIN_USER=\x00":                      "cannot be printed",
		"ADMIN_USERS=bob":                      "entry 1 is not name:role:hash",
		"ADMIN_USERS=bob:root:" + testHash:     `entry 1 ("bob"): the role must be`,
		"ADMIN_USERS=ada:viewer:" + testHash:   "has the name of another",
		"ADMIN_PASSWORD_HASH=s3cret":           "-id -m 16 -t 3 -p 1 -e",
		"BASE_PATH=prod/":                      "must look like /prod",
		"SESSION_IDLE=soon":                    "invalid duration",
		"SESSION_IDLE=1s":                      "1m to 720h",
		"SESSION_LIFETIME=2m":                  "SESSION_IDLE",
		"VALKEY_CONNECT_TIMEOUT=5":             "missing unit",
		"VALKEY_CONNECT_TIMEOUT=9s":            "100ms to 8s",
		"ADMIN_NETWORKS=10.0.0.300/8":          `"10.0.0.300/8"`,
		"OWNER_NETWORKS=everybody":             `"everybody"`,
		"OWNER_VIEW=pages":                     "OWNER_VIEW must be off or api",
		"LOG_LEVEL=loud":                       "unknown name",
		"ADMIN_PASSWORD_HASH=" + testHash[:40]: "argon2id",
		"ADMIN_PASSWORD_HASH=" + strings.Replace(testHash, "19456", "4096", 1): "19 MiB",
	} {
		name, value, _ := strings.Cut(change, "=")
		_, err := readConfig(environment(change))
		if err == nil || !strings.Contains(err.Error(), name+" ") || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: got %v, want %s and %q", change, err, name, advice)
			continue
		}
		if secret := slices.Contains([]string{"KEY_PEPPER", "ADMIN_PASSWORD_HASH"}, name); secret &&
			strings.Contains(err.Error(), value) {
			t.Errorf("%s: the error contains the secret: %v", name, err)
		}
	}
}

// ADMIN_USERS adds users to the first user, or replaces the first user.
func TestUsers(t *testing.T) {
	c, err := readConfig(environment("ADMIN_USERS=bob:viewer:" + testHash + "\neve:editor:" + testHash))
	if err != nil || len(c.users) != 3 || c.users[1].Name != "bob" || c.users[1].Role != auth.Viewer ||
		c.users[2].Role != auth.Editor {
		t.Errorf("got %v, %v, want ada, bob and eve", c.users, err)
	}
	c, err = readConfig(environment("ADMIN_USER=", "ADMIN_PASSWORD_HASH=",
		"ADMIN_USERS=bob:viewer:"+testHash))
	if err != nil || len(c.users) != 1 {
		t.Errorf("without a first user: got %v, %v, want bob", c.users, err)
	}
}

func withOIDC(changes ...string) []string {
	return environment(append([]string{
		"OIDC_ISSUER=https://login.example.com", "OIDC_CLIENT_ID=tidegate", "OIDC_CLIENT_SECRET=s3cret",
		"OIDC_EDITOR_VALUES=ops,leads",
		"ADMIN_URL=https://admin.example.com/prod", "BASE_PATH=/prod",
	}, changes...)...)
}

// With a provider, no user with a password is needed. The provider is not contacted at
// the start.
func TestOIDC(t *testing.T) {
	c, err := readConfig(withOIDC("ADMIN_USER=", "ADMIN_PASSWORD_HASH="))
	if err != nil || len(c.users) != 0 || c.OIDC.RoleClaim != "groups" || len(c.OIDC.EditorValues) != 2 ||
		len(c.OIDC.Scopes) != 3 {
		t.Fatalf("got %+v, %v, want no users and the provider's defaults", c.OIDC, err)
	}
	d, err := c.dashboard()
	if err != nil || d.Provider == nil || d.Provider.Host() != "login.example.com" {
		t.Errorf("got %v, %v, want the provider", d.Provider, err)
	}
	for change, advice := range map[string]string{
		"OIDC_ISSUER=http://login.example.com": "must start with https://",
		"OIDC_ISSUER=":                         "is not set, but other OIDC variables are",
		"OIDC_CLIENT_ID=":                      "client id at the provider",
		"OIDC_CLIENT_SECRET=":                  "client secret at the provider",
		"OIDC_EDITOR_VALUES=":                  "OIDC_ROLE_CLAIM",
		"ADMIN_URL=":                           "address in browsers",
		"ADMIN_URL=https://admin.example.com":  "must end in BASE_PATH",
		"ADMIN_URL=https://x.example/prod/":    "must end in BASE_PATH",
	} {
		name, _, _ := strings.Cut(change, "=")
		if _, err := readConfig(withOIDC(change)); err == nil || !strings.Contains(err.Error(), name+" ") ||
			!strings.Contains(err.Error(), advice) {
			t.Errorf("%s: got %v, want %q", change, err, advice)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error contains the secret: %v", change, err)
		}
	}
}

// A user of the provider logs in with the role of the configured claim.
func TestLogInAtTheProvider(t *testing.T) {
	const callback = "https://admin.example.com/prod/login/oidc/callback"
	issuer := oidctest.Start(t, oidctest.Options{Clients: []oidctest.Client{{
		ID: "tidegate", Secret: "s3cret", RedirectURIs: []string{callback},
	}}})
	h := newFunction(t, withOIDC("OIDC_ISSUER="+issuer, "OIDC_SCOPES=openid profile",
		"OIDC_ROLE_CLAIM=preferred_username", "OIDC_EDITOR_VALUES=olga", "OIDC_VIEWER_VALUES=sven")...)
	for name, role := range map[string]string{"olga": `"editor"`, "sven": `"viewer"`} {
		begun, _ := invoke(t, h, event("GET", "/prod/login/oidc", ""))
		to, err := url.Parse(begun.Headers["Location"])
		if q := to.Query(); err != nil || q.Get("redirect_uri") != callback ||
			q.Get("client_id") != "tidegate" || q.Get("scope") != "openid profile" {
			t.Fatalf("got redirect to %s, %v, want the settings' callback, client and scopes", to, err)
		}
		back := oidctest.NewPerson(t, issuer).Login(to.String(), name)
		in, _ := invoke(t, h, event("GET", back.Path, back.RawQuery, cookiesOf(begun)...))
		_, me := invoke(t, h, event("GET", "/prod/api/v1/me", "", cookiesOf(in)...))
		if !strings.Contains(me, role) {
			t.Errorf("%s: got %d and %s, want %s", name, in.StatusCode, me, role)
		}
	}
}

// cookiesOf returns the response's cookies as a browser sends them.
func cookiesOf(r events.APIGatewayV2HTTPResponse) []string {
	var all []string
	for _, c := range r.Cookies {
		pair, _, _ := strings.Cut(c, ";")
		all = append(all, pair)
	}
	return all
}

// OWNER_VIEW=off ends the owner's view.
func TestOwnerView(t *testing.T) {
	for view, want := range map[string]bool{"off": false, "api": true} {
		c, err := readConfig(environment("OWNER_VIEW=" + view))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := c.dashboard(); err != nil || d.OwnerView != want {
			t.Errorf("%s: got %t, %v, want %t", view, d.OwnerView, err, want)
		}
	}
}

// An error for an empty environment names every required variable.
func TestRequiredVariables(t *testing.T) {
	_, err := readConfig(nil)
	if err == nil {
		t.Fatal("an empty environment is accepted")
	}
	for _, name := range []string{"VALKEY_URL", "KEY_PEPPER", "ADMIN_USER", "ADMIN_PASSWORD_HASH"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

// invalidValues has an invalid value for each variable that can be invalid.
var invalidValues = map[string]string{
	"VALKEY_CONNECT_TIMEOUT": "9s",
	"VALKEY_URL":             "localhost:6379", "KEY_PEPPER": "short-secret", "ADMIN_USER": "\x00",
	"ADMIN_PASSWORD": "short-secret",
	"ADMIN_USERS":    "bob", "ADMIN_NETWORKS": "x", "OWNER_NETWORKS": "x",
	"OWNER_VIEW": "x", "ADMIN_URL": "http://x", "BASE_PATH": "prod/",
	"SESSION_IDLE": "soon", "SESSION_LIFETIME": "721h",
	"CHANGES_LOG":  "ftp://x",
	"FOREIGN_KEYS": "maybe", "TRUSTED_PROXIES": "0.0.0.0/0",
	"LOG_LEVEL": "loud", "EXAMPLE_URL": "https://x/$(reboot)",
	"CROSSINGS_TARGET":   "arn:aws:sqs:eu-west-1:111122223333:x",
	"OIDC_ISSUER":        "http://login.example.com",
	"OIDC_CLIENT_ID":     "",
	"OIDC_CLIENT_SECRET": "", "OIDC_EDITOR_VALUES": "", "OIDC_VIEWER_VALUES": "",
}

// withoutInvalidValue has the variables without a value in invalidValues, and the reason.
var withoutInvalidValue = map[string]string{
	"ADMIN_PASSWORD_HASH": "TestBadConfig", "STAGE": "any text", "RELEASE": "any text",
	"OIDC_SCOPES": "any texts", "OIDC_ROLE_CLAIM": "any text",
}

// One error names every invalid variable, and contains no secret.
func TestEveryInvalidVariableIsNamed(t *testing.T) {
	var variables []string
	fields := append(reflect.VisibleFields(reflect.TypeFor[settings]()),
		reflect.VisibleFields(reflect.TypeFor[oidcConfig]())...)
	for _, field := range fields {
		name := field.Tag.Get("env")
		value, listed := invalidValues[name]
		if name == "" || withoutInvalidValue[name] != "" {
			continue
		}
		if !listed {
			t.Errorf("invalidValues has no value for %s", name)
		}
		variables = append(variables, name+"="+value)
	}
	_, err := readConfig(variables)
	if err == nil {
		t.Fatal("an invalid environment is accepted")
	}
	words := strings.FieldsFunc(err.Error(), func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", c)
	})
	for name := range invalidValues {
		if !slices.Contains(words, name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "short-secret") {
		t.Errorf("the error contains a secret: %v", err)
	}
}
