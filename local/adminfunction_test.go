//go:build unix

package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/registry"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

// adminFunction is the built admin function behind an HTTP API.
type adminFunction struct {
	function *lambda.Function
	url      string
	client   valkey.Client
	data     string // folder of the log of changes
	log      *waiting.Buffer
}

const (
	firstPassword = "a password of twenty characters"
	otherPassword = "another one, of as many characters"
)

// buildAdmin builds the function.
func buildAdmin(t *testing.T) string {
	t.Helper()
	return built.Program(t, "tidegate/functions/admin")
}

// startAdmin starts the function with further variables, and without those that are
// empty. Without VALKEY_URL it has a server of its own, and without CHANGES_LOG a log.
func startAdmin(t *testing.T, binary string, variables map[string]string) adminFunction {
	t.Helper()
	env := map[string]string{"KEY_PEPPER": checkPepper, "ADMIN_USER": "ada", "ADMIN_PASSWORD": firstPassword}
	maps.Copy(env, variables)
	if env["VALKEY_URL"] == "" {
		env["VALKEY_URL"] = valkeytest.Start(t)
	}
	if env["CHANGES_LOG"] == "" {
		env["CHANGES_LOG"] = t.TempDir()
	}
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	a := adminFunction{client: storetest.Connect(t, env["VALKEY_URL"]), data: env["CHANGES_LOG"],
		log: &waiting.Buffer{}}
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

// registry returns a registry on the function's log.
func (a adminFunction) registry(t *testing.T) *registry.Store {
	t.Helper()
	return registrytest.Open(t, a.client, a.data, apikey.Pepper(checkPepper))
}

// machineToken returns a machine token of a scope, made with the operator's own pepper.
func (a adminFunction) machineToken(t *testing.T, scope token.Scope) string {
	t.Helper()
	tokens := token.NewStore(a.registry(t), a.client, apikey.Pepper(checkPepper))
	_, secret, err := tokens.Create(t.Context(), token.New{
		Name: "a test", Scope: scope, Expires: time.Now().Add(time.Hour), By: byTest.By,
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// token returns the Authorization of a machine token of scope write.
func (a adminFunction) token(t *testing.T) string {
	t.Helper()
	return "Bearer " + a.machineToken(t, token.Write)
}
