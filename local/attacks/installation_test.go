//go:build unix

package attacks

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/tier"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
	server "tidegate/local/valkey"
)

// installation has the parts of a deployment: a Valkey with its two users, both built
// functions, and the gateways in front of them.
type installation struct {
	dir      string // has the built functions
	valkey   *server.Server
	root     valkey.Client // with every right
	users    map[string]string
	store    *registry.Store
	accounts string // ADMIN_USERS
	rest     target
	http     target
	site     target // the dashboard
	secrets  map[string]string
	log      *output
	closings []func()
}

// editorName and viewerName are users of the dashboard.
const (
	editorName = "edith"
	viewerName = "victor"
)

// environments is the maximum number of environments of the check function and the
// dashboard. No test makes more calls at once, since they would be throttled.
const environments = 32

// install starts all parts. After an error none is running.
func install(ctx context.Context) (*installation, error) {
	i := &installation{users: map[string]string{}, secrets: map[string]string{}, log: &output{}}
	for _, name := range []string{"pepper", "check", "admin", editorName, viewerName} {
		i.secrets[name] = randomText()
	}
	for _, step := range []func(context.Context) error{i.build, i.startValkey, i.startLog, i.savePolicy,
		i.startDashboard, i.startAPIs} {
		if err := step(ctx); err != nil {
			i.close()
			return nil, err
		}
	}
	return i, nil
}

func (i *installation) close() {
	for n := len(i.closings) - 1; n >= 0; n-- {
		i.closings[n]()
	}
	i.closings = nil
}

func (i *installation) onClose(do func()) { i.closings = append(i.closings, do) }

// installed returns the installation. Without a valkey-server it skips the test, or fails
// it if CI is set. A test that calls it belongs to tier 2.
func installed(t *testing.T) *installation {
	t.Helper()
	tier.Two(t, "attacks an installation of built functions")
	i, err := shared.serve(t)
	if errors.Is(err, server.ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip("no valkey-server on PATH: scripts/install-test-tools installs it")
	}
	if err != nil {
		t.Fatalf("start the installation: %v", err)
	}
	return i
}

func randomText() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}

func (i *installation) build(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "attacks")
	if err != nil {
		return err
	}
	i.dir = dir
	i.onClose(func() { _ = os.RemoveAll(dir) })
	return built.Link(ctx, dir, map[string]string{
		"check/bootstrap": "tidegate/functions/check", "admin/bootstrap": "tidegate/functions/admin",
	})
}

func (i *installation) binary(function string) string {
	return filepath.Join(i.dir, function, "bootstrap")
}

// startValkey starts Valkey and creates the users of both functions, with the rights that
// they have in a deployment.
func (i *installation) startValkey(ctx context.Context) error {
	var err error
	if i.valkey, err = server.Installed(ctx); err != nil {
		return err
	}
	i.onClose(i.valkey.Close)
	if i.root, err = store.Open(ctx, i.valkey.URL,
		store.Options{Dial: 5 * time.Second, Write: 10 * time.Second}); err != nil {
		return err
	}
	i.onClose(i.root.Close)
	for user, access := range map[string]string{"check": acl.Check(), "admin": acl.Admin()} {
		words := append([]string{"ACL", "SETUSER", user, "reset", ">" + i.secrets[user]},
			acl.Rules(access)...)
		if err := i.root.Do(ctx, i.root.B().Arbitrary(words...).Build()).Error(); err != nil {
			return fmt.Errorf("create user %s: %w", user, err)
		}
		i.users[user] = strings.Replace(i.valkey.URL, "://", "://"+user+":"+i.secrets[user]+"@", 1)
	}
	return nil
}

// changesLog returns the folder of the log of changes.
func (i *installation) changesLog() string { return filepath.Join(i.dir, "changes") }

// startLog begins the log of changes.
func (i *installation) startLog(ctx context.Context) error {
	log, err := objects.Open(i.changesLog())
	if err != nil {
		return err
	}
	i.store = registry.New(i.root, log, apikey.Pepper(i.secrets["pepper"]))
	return i.store.Start(ctx)
}

func (i *installation) startDashboard(context.Context) error {
	users := make([]string, 0, 2)
	for name, role := range map[string]string{editorName: "editor", viewerName: "viewer"} {
		hash, err := argon2id.CreateHash(i.secrets[name], &argon2id.Params{
			Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32,
		})
		if err != nil {
			return err
		}
		users = append(users, name+":"+role+":"+hash)
	}
	i.accounts = strings.Join(users, " ")
	var err error
	i.site, err = i.dashboard(nil)
	return err
}

// dashboard starts an admin function with more variables, and the gateway in front of it.
func (i *installation) dashboard(more map[string]string) (target, error) {
	env := map[string]string{"VALKEY_URL": i.users["admin"], "ADMIN_USERS": i.accounts,
		"CHANGES_LOG": i.changesLog()}
	maps.Copy(env, more)
	admin, err := i.function("admin", environments, 25*time.Second, env)
	if err != nil {
		return target{}, err
	}
	return i.open(&gateway.HTTP{Integration: admin, APIID: "localadmin", Log: i.logger("admin")}), nil
}

func (i *installation) startAPIs(context.Context) error {
	var err error
	i.rest, i.http, err = i.apis(environments, nil)
	return err
}

// apis starts a check function with more variables, and both kinds of API in front of it.
func (i *installation) apis(concurrency int, env map[string]string) (rest, http target, err error) {
	check, err := i.check(concurrency, env)
	if err != nil {
		return target{}, target{}, err
	}
	apis, err := gateway.Deployed()
	if err != nil {
		return target{}, target{}, err
	}
	apis.REST.Authorizer, apis.HTTP.Authorizer = check, check
	apis.REST.Integration, apis.HTTP.Integration = echo.Backend{}, echo.Backend{}
	apis.REST.Log, apis.HTTP.Log = i.logger("rest"), i.logger("http")
	return i.open(apis.REST), i.open(apis.HTTP), nil
}

// check starts a check function with more variables.
func (i *installation) check(concurrency int, more map[string]string) (*lambda.Function, error) {
	env := map[string]string{"VALKEY_URL": i.users["check"], "VALKEY_TIMEOUT": "5s", "DENY_CACHE": "0s"}
	maps.Copy(env, more)
	return i.function("check", concurrency, 10*time.Second, env)
}

// function starts a built function. Its log level is debug, and it logs to the common
// log.
func (i *installation) function(name string, concurrency int, limit time.Duration,
	env map[string]string) (*lambda.Function, error) {
	all := map[string]string{"KEY_PEPPER": i.secrets["pepper"], "LOG_LEVEL": "debug"}
	maps.Copy(all, env)
	f, err := lambda.Start(lambda.Config{
		Name: name, Binary: i.binary(name), Env: all, Concurrency: concurrency, Warm: 1, Timeout: limit,
		InitTimeout: time.Minute, Memory: 512, NoFreeze: true, Log: i.log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%.4000s", err, i.log.tail())
	}
	i.onClose(f.Close)
	return f, nil
}

func (i *installation) logger(api string) *slog.Logger {
	return slog.New(slog.NewTextHandler(i.log, nil)).With("api", api)
}

func (i *installation) open(h handler) target {
	s := httptest.NewServer(h)
	i.onClose(s.Close)
	return target{url: s.URL, handler: h}
}

// suiteEdit says who makes the changes that the suite makes without the dashboard.
var suiteEdit = registry.Edit{By: registry.Actor{Kind: "system", Name: "attacks"}, Reason: "attacks"}

// wide is a plan whose limits no test reaches.
const wide = "wide"

// refusedAddress is on the list of refused addresses, so no key may call from it.
const refusedAddress = "192.0.2.66"

func (i *installation) savePolicy(ctx context.Context) error {
	set, err := i.store.Set(ctx)
	if err != nil {
		return err
	}
	set.Plans = []policy.Plan{{Name: wide, Limits: registrytest.Limits("10,000,000 per hour")}}
	set.TokenPlan, set.AddressPlan = wide, wide
	set.Deny = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(refusedAddress), 32)}
	_, err = i.store.SaveSet(ctx, *set, suiteEdit)
	return err
}

// edit changes the policies. Tests add their own routes and limits, and leave those of
// other tests unchanged.
func (i *installation) edit(t testing.TB, change func(*policy.Set)) {
	t.Helper()
	registrytest.Save(t, i.store, suiteEdit, change)
}

// route adds a route with one path, the cost of its calls, and the limits in words. Calls
// that cost more than 1 are settled.
func (i *installation) route(t testing.TB, name string, cost int64, words ...string) {
	t.Helper()
	i.edit(t, func(s *policy.Set) {
		s.Routes = append(s.Routes, limits.Route{
			Name: name, Match: []route.Pattern{{Path: "/" + name}}, Settle: cost > 1,
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: cost}},
		})
		s.Limits = append(s.Limits, registrytest.Limits(words...)...)
	})
}

func (i *installation) key(t testing.TB, plan string) (policy.Key, string) {
	t.Helper()
	n := policy.NewKey{Name: "customer", Env: "test", Plan: plan}
	k, secret := registrytest.Create(t, i.store, suiteEdit, n)
	return k, secret.Reveal()
}

// revoked returns a key that was valid before it was revoked.
func (i *installation) revoked(t testing.TB) string {
	t.Helper()
	k, secret := i.key(t, wide)
	if _, err := registrytest.Revoke(t.Context(), i.store, k.ID, suiteEdit); err != nil {
		t.Fatal(err)
	}
	return secret
}

// unknown returns a key that was never created. Its checksum is valid, since anybody can
// compute one.
func unknown(t testing.TB) string {
	t.Helper()
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// session logs a user in and returns the value of the session's Cookie header.
func (i *installation) session(t testing.TB, name string) string {
	t.Helper()
	form := url.Values{"user": {name}, "password": {i.secrets[name]}}
	got := i.site.send(t, http.MethodPost, "/login", form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	for _, line := range got.header.Values("Set-Cookie") {
		cookie, _, _ := strings.Cut(line, ";")
		if got.status == http.StatusSeeOther && strings.HasPrefix(cookie, "__Host-tidegate=") {
			return cookie
		}
	}
	t.Fatalf("log in as %s: %d %.300s", name, got.status, got.body)
	return ""
}

// machineToken creates a machine token of a scope.
func (i *installation) machineToken(t testing.TB, scope string) string {
	t.Helper()
	var made struct{ Secret string }
	body := fmt.Sprintf(`{"name":"suite","scope":%q,"expires":%q}`, scope,
		time.Now().Add(time.Hour).Format(time.RFC3339))
	got := i.site.send(t, http.MethodPost, "/api/v1/tokens", body, i.page(t)...)
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || made.Secret == "" {
		t.Fatalf("create a token: %d %.300s", got.status, got.body)
	}
	return made.Secret
}

// page returns the headers of a JSON request that the dashboard's own page sends for an
// editor.
func (i *installation) page(t testing.TB) []string {
	t.Helper()
	return []string{"Cookie", i.session(t, editorName), "Sec-Fetch-Site", "same-origin", "Content-Type",
		"application/json"}
}

// machineHeaders returns the headers of a JSON request with a machine token.
func machineHeaders(token string) []string {
	return []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
}
