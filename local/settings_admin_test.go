//go:build unix

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/syncbuffer"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
	"tidegate/web/static"
)

// adminFunction is the built admin function behind an HTTP API.
type adminFunction struct {
	function *lambda.Function
	url      string
	client   valkey.Client
	log      *syncbuffer.Buffer
}

const (
	firstPassword = "a password of twenty characters"
	otherPassword = "another one, of as many characters"
)

// buildAdmin builds the function, with the web bundle that ./scripts/build has made.
func buildAdmin(t *testing.T) string {
	t.Helper()
	_, err := static.Load()
	browsertest.Need(t, err, "run ./scripts/build -host")
	return built.Program(t, "tidegate/functions/admin")
}

// startAdmin starts the function. Without VALKEY_URL it reaches a server through a
// proxy.
func startAdmin(t *testing.T, binary string, variables map[string]string) adminFunction {
	t.Helper()
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	if variables["VALKEY_CONNECT_TIMEOUT"] != "" {
		proxy.DelayFirstReplies(time.Second)
	}
	client := storetest.Connect(t, server)
	env := map[string]string{"VALKEY_URL": proxy.URL(), "KEY_PEPPER": checkPepper, "ADMIN_USER": "ada",
		"ADMIN_PASSWORD": firstPassword}
	maps.Copy(env, variables)
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	a := adminFunction{client: client, log: &syncbuffer.Buffer{}}
	var err error
	a.function, err = lambda.Start(lambda.Config{Name: "admin", Binary: binary, Env: env, Warm: 1,
		Timeout: 30 * time.Second, Log: a.log})
	if err != nil {
		t.Fatalf("%v: %s", err, a.log.String())
	}
	t.Cleanup(a.function.Close)
	api := httptest.NewServer(&gateway.HTTP{Integration: a.function})
	t.Cleanup(api.Close)
	a.url = api.URL
	return a
}

// reply is an answer of the dashboard.
type reply struct {
	status   int
	header   http.Header
	location string
	cookies  []*http.Cookie
	body     string
}

// send makes a request as the dashboard's own pages do. Header names and values follow
// the body.
func (a adminFunction) send(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, response.Header.Get("Location"),
		response.Cookies(), string(text)}
}

func (a adminFunction) login(t *testing.T, user, password string) reply {
	t.Helper()
	form := neturl.Values{"user": {user}, "password": {password}}.Encode()
	return a.send(t, http.MethodPost, "/login", form, "Content-Type", "application/x-www-form-urlencoded")
}

func cookieOf(r reply) string {
	var all []string
	for _, c := range r.cookies {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

// status returns the status of the answer to a GET.
func status(path string) func(*testing.T, adminFunction) string {
	return func(t *testing.T, a adminFunction) string {
		t.Helper()
		return fmt.Sprint(a.send(t, http.MethodGet, path, "").status)
	}
}

// logInStatus returns the status of a log-in.
func logInStatus(user, password string) func(*testing.T, adminFunction) string {
	return func(t *testing.T, a adminFunction) string {
		t.Helper()
		return fmt.Sprint(a.login(t, user, password).status)
	}
}

// token returns a machine token of scope write, made with the operator's own pepper.
func (a adminFunction) token(t *testing.T) string {
	t.Helper()
	_, secret, err := token.NewStore(a.client, apikey.Pepper(checkPepper)).Create(t.Context(), token.New{
		Name: "a test", Scope: token.Write, Expires: time.Now().Add(time.Hour),
		By: audit.Actor{Kind: "user", Name: "tester"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + secret.Reveal()
}

// apiKey returns the secret of a new API key.
func (a adminFunction) apiKey(t *testing.T) string {
	t.Helper()
	keys := registry.NewStore(a.client, apikey.Pepper(checkPepper))
	savePlan(t, keys)
	_, secret, err := keys.Create(t.Context(), policy.NewKey{Name: "a key", Env: "test", Plan: "two"}, byTest)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// reservationEnd reports whether a reservation of the API expires in more than 12 hours.
func reservationEnd(t *testing.T, a adminFunction) string {
	t.Helper()
	keys := registry.NewStore(a.client, apikey.Pepper(checkPepper))
	savePlan(t, keys)
	k, _, err := keys.Create(t.Context(), policy.NewKey{Name: "a key", Env: "test", Plan: "two"}, byTest)
	if err != nil {
		t.Fatal(err)
	}
	r := a.send(t, http.MethodPost, "/api/v1/reservations", fmt.Sprintf(`{"keyId":%q,"cost":1}`, k.ID),
		"Content-Type", "application/json", "Authorization", a.token(t))
	var made struct{ Expires time.Time }
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != http.StatusCreated {
		t.Fatalf("%d %s, %v", r.status, r.body, err)
	}
	return map[bool]string{true: "tomorrow", false: "soon"}[time.Until(made.Expires) > 12*time.Hour]
}

func savePlan(t *testing.T, keys *registry.Store) {
	t.Helper()
	plan := policy.Plan{Name: "two", Limits: []limiter.Limit{{Requests: 2, Window: time.Hour}}}
	if _, err := keys.SaveSet(t.Context(), policy.Set{Plans: []policy.Plan{plan}}, byTest); err != nil {
		t.Fatal(err)
	}
}

// loggedIn reports whether a page has a text for a logged-in user.
func loggedIn(path, text string) func(*testing.T, adminFunction) string {
	return func(t *testing.T, a adminFunction) string {
		t.Helper()
		page := a.send(t, http.MethodGet, path, "", "Cookie", cookieOf(a.login(t, "ada", firstPassword)))
		return map[bool]string{true: "there", false: "not there"}[page.status == http.StatusOK &&
			strings.Contains(page.body, text)]
	}
}

// longSession reports whether a session lasts for more than 10 minutes without use.
func longSession(t *testing.T, a adminFunction) string {
	t.Helper()
	a.send(t, http.MethodGet, "/", "", "Cookie", cookieOf(a.login(t, "ada", firstPassword)))
	names, err := a.client.Do(t.Context(), a.client.B().Keys().Pattern("tg:session:*").Build()).AsStrSlice()
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	most := int64(0)
	for _, name := range names {
		left, err := a.client.Do(t.Context(), a.client.B().Pttl().Key(name).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, left)
	}
	return map[bool]string{true: "long", false: "short"}[most > (10*time.Minute).Milliseconds()]
}

// lifetime reports whether a new session ends within a day. Valkey stores it with its
// end, 8 bytes of milliseconds.
func lifetime(t *testing.T, a adminFunction) string {
	t.Helper()
	a.login(t, "ada", firstPassword)
	names, err := a.client.Do(t.Context(), a.client.B().Keys().Pattern("tg:session:*").Build()).AsStrSlice()
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	value, err := a.client.Do(t.Context(), a.client.B().Get().Key(names[0]).Build()).AsBytes()
	if err != nil || len(value) < 8 {
		t.Fatal(value, err)
	}
	end := time.UnixMilli(int64(binary.BigEndian.Uint64(value)))
	return map[bool]string{true: "within a day", false: "later"}[time.Until(end) < 24*time.Hour]
}

// requests reports whether the function logs requests.
func requests(t *testing.T, a adminFunction) string {
	t.Helper()
	a.send(t, http.MethodGet, "/login", "")
	return map[bool]string{true: "logged",
		false: "not logged"}[strings.Contains(a.log.String(), `"msg":"request"`)]
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

// Every documented variable of the admin function changes what the built function does.
func TestAdminVariables(t *testing.T) {
	first, other := hashOf(t, firstPassword), hashOf(t, otherPassword)
	rows := map[string]setting[adminFunction]{
		"VALKEY_URL": {nil, map[string]string{valkeytest.Start(t): "200", noServer: "503"},
			status("/healthz")},
		"VALKEY_CONNECT_TIMEOUT": {nil, map[string]string{"100ms": "503", "8s": "200"}, status("/login")},
		"KEY_PEPPER": {nil, map[string]string{checkPepper: "200", checkPepper + " not": "401"},
			func(t *testing.T, a adminFunction) string {
				t.Helper()
				return fmt.Sprint(a.send(t, http.MethodGet, "/api/v1/me", "", "Authorization",
					a.token(t)).status)
			}},
		"FOREIGN_KEYS": {nil, map[string]string{"false": "not there", "true": "there"},
			func(t *testing.T, a adminFunction) string {
				t.Helper()
				savePlan(t, registry.NewStore(a.client, apikey.Pepper(checkPepper)))
				return loggedIn("/keys/new", `name="value"`)(t, a)
			}},
		"RESERVATION_LEASE": {nil, map[string]string{"10m": "soon", "24h": "tomorrow"}, reservationEnd},
		"ADMIN_USER": {nil, map[string]string{"ada": "303", "bob": "401"},
			logInStatus("ada", firstPassword)},
		"ADMIN_PASSWORD": {nil, map[string]string{firstPassword: "303", otherPassword: "401"},
			logInStatus("ada", firstPassword)},
		"ADMIN_PASSWORD_HASH": {map[string]string{"ADMIN_PASSWORD": ""},
			map[string]string{first: "303", other: "401"}, logInStatus("ada", firstPassword)},
		"ADMIN_USERS": {nil, map[string]string{"": "401", "vic:viewer:" + other: "303"},
			logInStatus("vic", otherPassword)},
		"ADMIN_NETWORKS": {nil, map[string]string{"127.0.0.0/8": "200", "203.0.113.0/24": "403"},
			status("/login")},
		"OWNER_VIEW": {nil, map[string]string{"off": "401", "api": "200"},
			func(t *testing.T, a adminFunction) string {
				t.Helper()
				return fmt.Sprint(a.send(t, http.MethodGet, "/api/v1/self", "", "X-API-Key",
					a.apiKey(t)).status)
			}},
		"OWNER_NETWORKS": {map[string]string{"ADMIN_NETWORKS": "203.0.113.0/24"},
			map[string]string{"": "403", "127.0.0.0/8": "401"}, status("/api/v1/self")},
		"BASE_PATH": {nil, map[string]string{"": "/login?next=%2F", "/prod": "/prod/login?next=%2Fprod%2F"},
			func(t *testing.T, a adminFunction) string {
				t.Helper()
				return a.send(t, http.MethodGet, "/", "").location
			}},
		"SESSION_IDLE":     {nil, map[string]string{"1m": "short", "30m": "long"}, longSession},
		"SESSION_LIFETIME": {nil, map[string]string{"1h": "within a day", "720h": "later"}, lifetime},
		"STAGE": {nil, map[string]string{"": "not there", "blue-stage": "there"},
			loggedIn("/settings", "blue-stage")},
		"RELEASE": {nil, map[string]string{"": "not there", "v1.2.3-4": "there"},
			loggedIn("/settings", "v1.2.3-4")},
		"LOG_LEVEL": {nil, map[string]string{"info": "logged", "error": "not logged"}, requests},
	}
	maps.Copy(rows, journalRows(t))
	testAdminVariables(t, false, rows)
}

// testAdminVariables calls testVariables for the variables of an OpenID provider, or for
// all others.
func testAdminVariables(t *testing.T, aboutProvider bool, rows map[string]setting[adminFunction]) {
	t.Helper()
	documented := slices.DeleteFunc(documentedVariables(t, "admin"), func(name string) bool {
		return (strings.HasPrefix(name, "OIDC_") || name == "ADMIN_URL") != aboutProvider
	})
	binary := buildAdmin(t)
	testVariables(t, documented, rows, func(t *testing.T, variables map[string]string) adminFunction {
		t.Helper()
		return startAdmin(t, binary, variables)
	})
}
