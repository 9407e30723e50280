//go:build unix

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

var variableName = regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")

// checkDocumented fails the test unless the function's variables in docs/configuration.md
// are those of env and others.
func checkDocumented(t *testing.T, function string, env map[string]string, others ...string) {
	t.Helper()
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !slices.Contains([]string{function, "both"}, strings.TrimSpace(cells[2])) {
			continue
		}
		for _, name := range variableName.FindAllStringSubmatch(cells[1], -1) {
			documented = append(documented, name[1])
		}
	}
	slices.Sort(documented)
	if tested := slices.Sorted(maps.Keys(env)); !slices.Equal(documented,
		slices.Sorted(slices.Values(append(tested, others...)))) {
		t.Errorf("docs/configuration.md has %v, tested are %v and %v", documented, tested, others)
	}
}

// wantEffect fails the test unless the variable has the wanted effect.
func wantEffect(t *testing.T, variable string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", variable, got, want)
	}
}

// The built check function uses every documented variable. Each has a value that is not
// the default. The variables for connecting and JWT_ISSUERS are tested in functions/check,
// and TestNothingSecretLeaks sets JWT_JWKS.
func TestCheckSettings(t *testing.T) {
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, tokenKey.Set())
	}))
	t.Cleanup(keys.Close)
	env := map[string]string{
		"IDENTITY_SOURCES": "key,jwt,ip", "JWT_ISSUER": canaryIssuer, "JWT_AUDIENCE": "others,orders",
		"JWT_JWKS_URL": keys.URL, "JWT_LEEWAY": "5m", "JWT_IDENTITY_CLAIM": "client_id",
		"JWT_PLAN_CLAIM": "tier", "JWT_PLAN_MAP": `{"gold": "five"}`, "IPV4_PREFIX": "24", "IPV6_PREFIX": "32",
		"TRUSTED_PROXIES":   "192.0.2.0/25",
		"HTTP_API_RESPONSE": "iam", "HTTP_API_DENY": "context", "USAGE_IDENTIFIER": "true",
		"FOREIGN_KEYS": "true", "DIRECT_CALLS": "on", "KEY_HEADERS": "x-api-key,apikey",
		"JWT_COOKIE": "session", "JWT_COOKIE_ORIGINS": "https://app.example.com",
		"JWT_CONTEXT_CLAIMS": "client_id", "JWT_REQUIRED_CLAIMS": `{"client_id": "app"}`,
		"SETTLE_WITHIN": "1s", "DENY_CACHE": "0s", "CALLER_CACHE": "0s",
		"STAGE": "blue", "LOG_LEVEL": "error",
	}
	checkDocumented(t, "check", env, "VALKEY_URL", "KEY_PEPPER", "VALKEY_TIMEOUT", "VALKEY_CONNECT_TIMEOUT",
		"JWT_JWKS", "JWT_ISSUERS")
	f := startCheck(t, valkeytest.Start(t), env)
	f.saveSettingsPolicy(t)

	address := func(ip string) string { return f.context(t, canaryEvent("x", "y", ip), "keyId") }
	wantEffect(t, "IPV4_PREFIX", address("203.0.113.7"), address("203.0.113.9"))
	wantEffect(t, "TRUSTED_PROXIES", f.context(t, canaryEvent("X-Forwarded-For", "203.0.113.7, 192.0.2.9",
		"192.0.2.9"), "keyId"), address("203.0.113.7"))
	wantEffect(t, "IPV6_PREFIX", address("2001:db8:1::1"), address("2001:db8:2::1"))
	wantEffect(t, "IDENTITY_SOURCES", f.verdict(t, canaryEvent("x", "y", "198.51.100.1")), "allow")
	expired := canaryEvent("authorization", "Bearer "+signedToken(-time.Minute), canaryAddress)
	wantEffect(t, "JWT_LEEWAY", f.verdict(t, expired), "allow")
	wantEffect(t, "JWT_IDENTITY_CLAIM", f.context(t, expired, "keyId"),
		apikey.NewKey(apikey.Pepper(checkPepper)).Token(canaryIssuer, "app"))
	wantEffect(t, "JWT_PLAN_CLAIM and JWT_PLAN_MAP", f.context(t, expired, "plan"), "five")
	another := tokenKey.Sign(map[string]any{"iss": canaryIssuer, "aud": "orders", "client_id": "else",
		"exp": time.Now().Add(time.Minute).Unix()})
	wantEffect(t, "JWT_REQUIRED_CLAIMS", f.verdict(t, canaryEvent("authorization", "Bearer "+another,
		canaryAddress)), "function error errorString: Unauthorized")
	wantEffect(t, "JWT_CONTEXT_CLAIMS", f.context(t, expired, "claim_client_id"), "app")
	cookie := strings.Replace(canaryEvent("cookie", "session="+signedToken(time.Minute), canaryAddress),
		`"cookie"`, `"origin":"https://app.example.com","cookie"`, 1)
	wantEffect(t, "JWT_COOKIE and JWT_COOKIE_ORIGINS", f.context(t, cookie, "claim_client_id"), "app")
	_, other := f.newKey(t)
	wantEffect(t, "KEY_HEADERS", f.context(t, canaryEvent("apikey", other.Reveal(), canaryAddress), "keyId"),
		other.ID())
	wantEffect(t, "FOREIGN_KEYS", f.verdict(t, f.foreignCall(t)), "allow")
	direct := f.answerTo(t, `{"tidegate":"check","subject":"ada","plan":"two",`+
		`"method":"GET","path":"/orders","address":"198.51.100.9"}`)
	wantEffect(t, "DIRECT_CALLS", strings.Contains(direct, `"allowed":true`), true)
	_, secret := f.newKey(t)
	call := restEvent(secret.Reveal())
	wantEffect(t, "USAGE_IDENTIFIER", strings.Contains(f.answerTo(t, call), "usageIdentifierKey"), true)
	wantEffect(t, "SETTLE_WITHIN", errors.Is(f.settled(t, f.context(t, call, "settlement")),
		enforce.ErrExpired), true)
	wantEffect(t, "DENY_CACHE", f.deniedFromMemory(t, call), 0)
	denied := f.answerTo(t, httpEvent(secret.Reveal()))
	wantEffect(t, "HTTP_API_RESPONSE", strings.Contains(denied, "isAuthorized"), false)
	wantEffect(t, "HTTP_API_DENY", strings.Contains(denied, `"Effect":"Allow"`), true)
	wantEffect(t, "CALLER_CACHE", f.inAnOutage(t), "deny")
	f.Close()
	wantEffect(t, "STAGE", strings.Contains(f.log.String(), `"Stage":"blue"`), true)
	wantEffect(t, "LOG_LEVEL", strings.Contains(f.log.String(), `"msg":"denied"`), false)
}

// saveSettingsPolicy adds a plan that tokens name, settlements on all routes, and lets
// callers through while Valkey is unavailable.
func (f *checkFunction) saveSettingsPolicy(t *testing.T) {
	t.Helper()
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		set.Plans[0].Degraded = policy.Open
		set.Plans = append(set.Plans, policy.Plan{Name: "five", Limits: registrytest.Limits("5 per hour")})
		set.Routes = []limits.Route{{Name: "all", Match: []route.Pattern{{}}, Settle: true}}
	})
}

// answerTo returns the function's answer, or its error.
func (f *checkFunction) answerTo(t *testing.T, event string) string {
	t.Helper()
	answer, err := f.Invoke(t.Context(), []byte(event))
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// verdict returns allow, deny or another answer.
func (f *checkFunction) verdict(t *testing.T, event string) string {
	t.Helper()
	switch text := f.answerTo(t, event); {
	case strings.Contains(text, `"Effect":"Allow"`):
		return "allow"
	case strings.Contains(text, `"Effect":"Deny"`):
		return "deny"
	default:
		return text
	}
}

// context returns a value of the answer's context.
func (f *checkFunction) context(t *testing.T, event, name string) string {
	t.Helper()
	var answer struct{ Context map[string]any }
	text := f.answerTo(t, event)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return fmt.Sprint(answer.Context[name])
}

func restEvent(key string) string { return canaryEvent("x-api-key", key, canaryAddress) }

// httpEvent returns a call of an HTTP API with payload 2.0.
func httpEvent(key string) string {
	text, _ := json.Marshal(map[string]any{ // texts always encode
		"version": "2.0", "type": "REQUEST",
		"routeArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/$default/GET/orders",
		"routeKey": "$default", "rawPath": "/orders", "headers": map[string]string{"x-api-key": key},
		"requestContext": map[string]any{"stage": "$default", "requestId": "r", "http": map[string]any{
			"method": "GET", "path": "/orders", "sourceIp": canaryAddress,
		}},
	})
	return string(text)
}

// foreignCall returns a call with an imported key of another system.
func (f *checkFunction) foreignCall(t *testing.T) string {
	t.Helper()
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	f.store.ForeignKeys = true
	if _, _, err := f.store.Create(t.Context(), policy.NewKey{Name: "old", Env: "live", Plan: "two",
		Value: value}, byTest); err != nil {
		t.Fatal(err)
	}
	return restEvent(value)
}

// settled returns the result of settling more than a second after the call.
func (f *checkFunction) settled(t *testing.T, text string) error {
	t.Helper()
	issued := f.now(t)
	waiting.Until(t, "a second of Valkey's clock", func() bool { return f.now(t).Sub(issued) > time.Second })
	checker := enforce.NewChecker(f.client, apikey.Pepper(checkPepper))
	_, err := checker.Settle(t.Context(), text, limits.Costs{})
	return err
}

// now returns the time on Valkey's clock.
func (f *checkFunction) now(t *testing.T) time.Time {
	t.Helper()
	parts, err := f.client.Do(t.Context(), f.client.B().Time().Build()).AsIntSlice()
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	return time.Unix(parts[0], parts[1]*1000)
}

var scriptCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// scriptRuns returns the number of scripts that the server has run.
func (f *checkFunction) scriptRuns(t *testing.T) int {
	t.Helper()
	info, err := f.client.Do(t.Context(), f.client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	match := scriptCalls.FindStringSubmatch(info)
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(match[1]) // digits
	return n
}

// deniedFromMemory returns how many of a denied caller's calls did not ask the server.
// Scripts that send usage records may hide some of them.
func (f *checkFunction) deniedFromMemory(t *testing.T, call string) int {
	t.Helper()
	const calls = 400 // more than the scripts that send usage records
	f.answerTo(t, call)
	before := f.scriptRuns(t)
	for range calls {
		f.answerTo(t, call)
	}
	return max(0, calls-(f.scriptRuns(t)-before))
}

// inAnOutage returns the verdict on a caller that was allowed before the server began to
// refuse commands.
func (f *checkFunction) inAnOutage(t *testing.T) string {
	t.Helper()
	_, secret := f.newKey(t)
	call := restEvent(secret.Reveal())
	if first := f.verdict(t, call); first != "allow" {
		t.Fatalf("first call: %s", first)
	}
	for _, command := range [][]string{{"CONFIG", "SET", "replica-serve-stale-data", "no"},
		{"REPLICAOF", "127.0.0.1", "1"}} {
		if err := f.client.Do(t.Context(), f.client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return f.verdict(t, call)
}

// The built admin function uses every documented variable. Each has a value that is not
// the default. The others are tested in functions/admin: the OpenID provider, the
// password in plain text, the time-out for connecting, the owner's view, and proxies.
func TestAdminSettings(t *testing.T) {
	folder := t.TempDir()
	env := map[string]string{
		"ADMIN_PASSWORD_HASH": hashOf(t, firstPassword),
		"ADMIN_USERS":         "vic:viewer:" + hashOf(t, otherPassword),
		"ADMIN_NETWORKS":      "127.0.0.0/8", "OWNER_NETWORKS": "203.0.113.0/24", "BASE_PATH": "/prod",
		"SESSION_IDLE": "1m", "SESSION_LIFETIME": "1h", "FOREIGN_KEYS": "true",
		"CHANGES_LOG": folder, "STAGE": "blue-stage", "RELEASE": "v1.2.3-4", "LOG_LEVEL": "error",
		"EXAMPLE_URL":      "https://api.example.com/hello",
		"CROSSINGS_TARGET": "arn:aws:sns:eu-west-1:111122223333:tidegate-blue-crossings",
	}
	checkDocumented(t, "admin", env, "VALKEY_URL", "KEY_PEPPER", "ADMIN_USER", "VALKEY_CONNECT_TIMEOUT",
		"ADMIN_PASSWORD", "OWNER_VIEW", "ADMIN_URL", "OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET",
		"OIDC_SCOPES", "OIDC_ROLE_CLAIM", "OIDC_EDITOR_VALUES", "OIDC_VIEWER_VALUES", "TRUSTED_PROXIES")
	variables := maps.Clone(env)
	variables["ADMIN_PASSWORD"] = ""
	a := startAdmin(t, buildAdmin(t), variables)

	wantEffect(t, "BASE_PATH", a.send(t, http.MethodGet, "/prod/", "").location,
		"/prod/login?next=%2Fprod%2F")
	a.url += "/prod"
	elsewhere, err := a.function.Invoke(t.Context(), []byte(`{"version":"2.0","rawPath":"/prod/login",
		"requestContext":{"http":{"method":"GET","path":"/prod/login","sourceIp":"192.0.2.1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	wantEffect(t, "ADMIN_NETWORKS", strings.Contains(string(elsewhere), `"statusCode":403`), true)
	wantEffect(t, "OWNER_NETWORKS", a.send(t, http.MethodGet, "/api/v1/self", "").status,
		http.StatusForbidden)
	in := a.login(t, "ada", firstPassword)
	wantEffect(t, "ADMIN_PASSWORD_HASH", in.status, http.StatusSeeOther)
	session := a.sessionOf(t)
	wantEffect(t, "SESSION_LIFETIME", time.Until(a.endOf(t, session)) <= time.Hour, true)
	idle := a.integer(t, a.client.B().Pttl().Key(session).Build())
	wantEffect(t, "SESSION_IDLE", idle > 0 && idle <= time.Minute.Milliseconds(), true)
	wantEffect(t, "ADMIN_USERS", a.login(t, "vic", otherPassword).status, http.StatusSeeOther)
	page := a.send(t, http.MethodGet, "/settings", "", "Cookie", cookieOf(in)).body
	wantEffect(t, "STAGE", strings.Contains(page, "blue-stage"), true)
	home := a.send(t, http.MethodGet, "/", "", "Cookie", cookieOf(in)).body
	wantEffect(t, "EXAMPLE_URL", strings.Contains(home, "https://api.example.com/hello"), true)
	alerts := a.send(t, http.MethodGet, "/alerts", "", "Cookie", cookieOf(in)).body
	wantEffect(t, "CROSSINGS_TARGET", strings.Contains(alerts, "tidegate-blue-crossings"), true)
	wantEffect(t, "RELEASE", strings.Contains(page, "v1.2.3-4"), true)
	wantEffect(t, "LOG_LEVEL", strings.Contains(a.log.String(), `"msg":"request"`), false)

	bearer := a.token(t)
	call := func(method, path, body, kind string) reply {
		return a.send(t, method, path, body, "Content-Type", kind, "If-Match", "*", "Authorization", bearer)
	}
	plan := call(http.MethodPut, "/api/v1/policy.yaml?reason=test",
		"plans: [{name: two, limits: [2 per hour]}]\n", "application/yaml")
	wantEffect(t, "CHANGES_LOG", plan.status, http.StatusOK)
	made := call(http.MethodPost, "/api/v1/keys", `{"name":"old","plan":"two",
		"value":"AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"}`, "application/json")
	wantEffect(t, "FOREIGN_KEYS", made.status, http.StatusCreated)
	replaceByFile(t, folder)
	refused := call(http.MethodPost, "/api/v1/keys", `{"name":"a key","plan":"two"}`, "application/json")
	wantEffect(t, "CHANGES_LOG away", refused.status, http.StatusServiceUnavailable)
}

func (a adminFunction) integer(t *testing.T, command valkey.Completed) int64 {
	t.Helper()
	n, err := a.client.Do(t.Context(), command).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sessionOf returns the name of the only session in Valkey.
func (a adminFunction) sessionOf(t *testing.T) string {
	t.Helper()
	names, err := a.client.Do(t.Context(), a.client.B().Keys().Pattern("tg:session:*").Build()).AsStrSlice()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	return names[0]
}

// endOf returns the end of a session, which its value begins with: 8 bytes of
// milliseconds.
func (a adminFunction) endOf(t *testing.T, session string) time.Time {
	t.Helper()
	value, err := a.client.Do(t.Context(), a.client.B().Get().Key(session).Build()).AsBytes()
	if err != nil || len(value) < 8 {
		t.Fatal(value, err)
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(value)))
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := argon2id.CreateHash(password,
		&argon2id.Params{Memory: 19456, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// replaceByFile puts a file in the place of the folder, so that nothing can be stored.
func replaceByFile(t *testing.T, folder string) {
	t.Helper()
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
