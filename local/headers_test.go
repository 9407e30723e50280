//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/web/middleware"
)

// headerRow has the wanted value of a header for each change, and how to observe it. At
// least two changes give different values.
type headerRow struct {
	want    map[string]string
	observe func(t *testing.T, s *site, change string) string
}

// site has both built functions behind the local gateways.
type site struct {
	check      *checkFunction
	rest, http string
	admin      adminFunction
}

func startSite(t *testing.T) *site {
	t.Helper()
	valkey := valkeytest.Start(t)
	check := startCheck(t, valkey,
		tokens("IDENTITY_SOURCES", "key,jwt", "HTTP_API_RESPONSE", "simple", "HTTP_API_DENY", "context"))
	registrytest.Save(t, check.store, byTest, func(set *policy.Set) {
		set.Limits = nil
		set.Plans = append(set.Plans, policy.Plan{Name: "day", Limits: registrytest.Limits("1 per day")})
	})
	admin := startAdmin(t, buildAdmin(t), map[string]string{"VALKEY_URL": valkey, "CHANGES_LOG": check.data})
	l, err := listen(options{rest: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	f := invokers{check: check, admin: admin.function, backend: echo.Backend{}, httpBackend: adaptedBackend()}
	servers, err := startServers(l, f, gateway.AnyOrigin, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.stop)
	return &site{check, url(l.rest), url(l.http), admin}
}

// adaptedBackend passes the request context in a header, as the AWS Lambda Web Adapter
// does, to every path except /bare.
func adaptedBackend() gateway.Invoker {
	limits := middleware.Middleware{Source: middleware.WebAdapter,
		Log: slog.New(slog.DiscardHandler)}
	guarded := limits.Wrap(http.HandlerFunc(echoed))
	adapter := func(w http.ResponseWriter, r *http.Request) {
		event, _ := algnhsa.APIGatewayV2RequestFromContext(r.Context())
		text, _ := json.Marshal(event.RequestContext) // decoded from JSON, so it encodes
		if r.URL.Path != "/bare" {
			r.Header.Set("X-Amzn-Request-Context", string(text))
		}
		guarded.ServeHTTP(w, r)
	}
	return algnhsa.New(http.HandlerFunc(adapter),
		&algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2})
}

func (s *site) key(t *testing.T, plan string) string {
	t.Helper()
	_, secret := registrytest.Create(t, s.check.store, byTest,
		policy.NewKey{Name: "a key", Env: "test", Plan: plan})
	return secret.Reveal()
}

// restHeader returns a header of the REST API's last answer. The change "PLAN CALLS"
// makes that many calls with a new key; any other change makes one with a malformed key.
// Seconds to wait are removed, or rounded up to hours.
func restHeader(name string) func(*testing.T, *site, string) string {
	return func(t *testing.T, s *site, change string) string {
		t.Helper()
		plan, digits, _ := strings.Cut(change, " ")
		calls, err := strconv.Atoi(digits)
		key := "tg_test_malformed"
		if err == nil {
			key = s.key(t, plan)
		}
		var header http.Header
		for range max(calls, 1) {
			_, header, _ = request(t, s.rest+"/orders", "X-Api-Key", key)
		}
		if seconds, err := strconv.Atoi(header.Get(name)); err == nil {
			return fmt.Sprintf("%.0f h", math.Ceil(float64(seconds)/3600))
		}
		return regexp.MustCompile(`;t=\d+`).ReplaceAllString(header.Get(name), "")
	}
}

// ownVersion stands for the version of the key in If-Match and ETag.
const ownVersion = "its version"

// editKey creates a key, overrides its limits with If-Match, and reads the key.
func (s *site) editKey(t *testing.T, match string) (status int, etag string) {
	t.Helper()
	k, _ := s.check.newKey(t)
	own := fmt.Sprintf("%q", strconv.FormatInt(k.Version, 10))
	match = strings.Replace(match, ownVersion, own, 1)
	path := "/api/v1/keys/" + k.ID
	token := s.admin.token(t)
	edit := s.admin.send(t, http.MethodPut, path+"/override",
		`{"limits":[{"requests":50,"window":"10s"}],"reason":"a test"}`,
		"Content-Type", "application/json", "Authorization", token, "If-Match", match)
	etag = s.admin.send(t, http.MethodGet, path, "", "Authorization", token).header.Get("ETag")
	if version, err := strconv.ParseInt(strings.Trim(etag, `"`), 10, 64); err == nil && version > k.Version {
		return edit.status, "a greater one"
	}
	return edit.status, strings.Replace(etag, own, ownVersion, 1)
}

// credentialStatus returns the status of a call with the change as its credential, in the
// named header. A machine token calls the admin function, and any other credential calls
// the check function.
func credentialStatus(name, scheme string) func(*testing.T, *site, string) string {
	return func(t *testing.T, s *site, credential string) string {
		t.Helper()
		switch credential {
		case "a key":
			credential = s.key(t, "two")
		case "a JWT":
			credential = signedToken(time.Hour)
		case "a machine token":
			credential = strings.TrimPrefix(s.admin.token(t), "Bearer ")
		}
		url := s.rest + "/orders"
		if strings.HasPrefix(credential, "tga_") {
			url = s.admin.url + "/api/v1/me"
		}
		status, _, _ := request(t, url, name, scheme+credential)
		return strconv.Itoa(status)
	}
}

// corsAnswers returns what scripts of another origin may read, by API and status.
func corsAnswers(value string) map[string]string {
	return map[string]string{
		"REST 200": value, "REST 401": value, "REST 429": value,
		"HTTP 200": value, "HTTP 429": value, "HTTP 403": "",
	}
}

// crossOrigin returns a header of an answer to a script of another origin. The change
// "API STATUS" names the API, and the status of that answer.
func crossOrigin(name string) func(*testing.T, *site, string) string {
	return func(t *testing.T, s *site, change string) string {
		t.Helper()
		api, status, _ := strings.Cut(change, " ")
		key := s.key(t, "two")
		if status == "401" || status == "403" {
			key = "tg_test_malformed"
		}
		url := map[string]string{"REST": s.rest, "HTTP": s.http}[api] + "/orders"
		for range 3 {
			got, header, _ := request(t, url, "X-Api-Key", key, "Origin", "https://app.example")
			if strconv.Itoa(got) == status {
				return header.Get(name)
			}
		}
		t.Fatalf("no answer has the status %s", change)
		return ""
	}
}

var headerRows = map[string]headerRow{
	"Retry-After": {map[string]string{"two 2": "", "two 3": "1 h", "day 2": "24 h"},
		restHeader("Retry-After")},
	"Ratelimit": {map[string]string{
		"two 1": `"2 per hour";r=1`, "two 2": `"2 per hour";r=0`, "two 3": `"2 per hour";r=0`,
		"malformed": "",
	}, restHeader("RateLimit")},
	"Ratelimit-Policy": {map[string]string{
		"two 1": `"2 per hour";q=2;w=3600`, "day 2": `"1 per day";q=1;w=86400`,
	}, restHeader("RateLimit-Policy")},
	"Www-Authenticate": {map[string]string{"two 1": "", "malformed": `Bearer realm="tidegate"`, "two 3": ""},
		restHeader("WWW-Authenticate")},
	"Content-Type": {map[string]string{
		"two 1": "application/json", "malformed": "application/problem+json",
		"two 3": "application/problem+json",
	}, restHeader("Content-Type")},
	"Access-Control-Allow-Origin": {corsAnswers("*"), crossOrigin("Access-Control-Allow-Origin")},
	"Access-Control-Expose-Headers": {
		corsAnswers("Retry-After,RateLimit,RateLimit-Policy"), crossOrigin("Access-Control-Expose-Headers"),
	},
	"X-Api-Key": {map[string]string{"a key": "200", "tg_test_malformed": "401"},
		credentialStatus("X-Api-Key", "")},
	"Authorization": {map[string]string{
		"a key": "200", "a JWT": "200", "malformed": "401", "a machine token": "200", "tga_malformed": "401",
	}, credentialStatus("Authorization", "Bearer ")},
	"X-Amzn-Request-Context": {map[string]string{"/orders": "200 200 429", "/bare": "500 500 500"},
		func(t *testing.T, s *site, path string) string {
			t.Helper()
			key := s.key(t, "two")
			statuses := make([]string, 3)
			for i := range statuses {
				status, _, _ := request(t, s.http+path, "X-Api-Key", key)
				statuses[i] = strconv.Itoa(status)
			}
			return strings.Join(statuses, " ")
		}},
	"Etag": {map[string]string{`"1"`: ownVersion, ownVersion: "a greater one"}, func(t *testing.T, s *site, match string) string {
		t.Helper()
		_, etag := s.editKey(t, match)
		return etag
	}},
	"If-Match": {map[string]string{"": "428", `"1"`: "412", ownVersion: "200", "*": "200"},
		func(t *testing.T, s *site, match string) string {
			t.Helper()
			status, _ := s.editKey(t, match)
			return strconv.Itoa(status)
		}},
}

// The built functions send or read the documented headers, behind the gateways. Each
// header's effect is the documented one.
func TestHeaders(t *testing.T) {
	s := startSite(t)
	for name, row := range headerRows {
		for change, want := range row.want {
			t.Run(name+"/"+change, func(t *testing.T) {
				if got := row.observe(t, s, change); got != want {
					t.Errorf("%s with %q: %s, want %s", name, change, got, want)
				}
			})
		}
	}
}
