package reservation

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/store/acl"
	"tidegate/internal/valkeytest"
	"tidegate/web/middleware"
)

var byTest = policy.Edit{By: audit.Actor{Kind: "user", Name: "tester"}}

// api is the handler over a store with one key of 10 an hour. It has the rights of the admin function.
type api struct {
	t      *testing.T
	server *httptest.Server
	key    policy.Key
	store  *policy.Store
}

func newAPI(t *testing.T) *api {
	t.Helper()
	url := valkeytest.As(t, valkeytest.Start(t), "admin", acl.Rules(acl.Admin()))
	client, err := store.Open(t.Context(), url, store.Options{Dial: 5 * time.Second, Write: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pepper := apikey.Pepper(strings.Repeat("pepper!!", 4))
	a := &api{t: t, store: policy.NewStore(client, pepper), server: httptest.NewServer(Handler(policy.NewChecker(client, pepper)))}
	t.Cleanup(a.server.Close)
	set, err := a.store.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Plans = []policy.Plan{{Name: "free", Limits: []limiter.Limit{{Requests: 10, Window: time.Hour}}}}
	if _, err := a.store.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	if a.key, _, err = a.store.Create(t.Context(), policy.NewKey{Name: "worker", Env: "test", Plan: "free"}, byTest); err != nil {
		t.Fatal(err)
	}
	return a
}

// post returns status, Retry-After and body.
func (a *api) post(path, body string) (int, string, map[string]any) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.server.URL+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	response, err := a.server.Client().Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(text), &decoded); err != nil {
		a.t.Fatalf("%s: %v", text, err)
	}
	return response.StatusCode, response.Header.Get("Retry-After"), decoded
}

func (a *api) reserve(cost string) (int, string, map[string]any) {
	a.t.Helper()
	return a.post("/api/v1/reservations", `{"keyId":"`+a.key.ID+`","cost":`+cost+`}`)
}

// A worker reserves, is told when that is too much, and settles through the middleware's client.
func TestReserveAndSettle(t *testing.T) {
	a := newAPI(t)
	status, _, granted := a.reserve("6")
	if limits, _ := granted["limits"].([]any); status != http.StatusCreated || len(limits) != 1 || limits[0].(map[string]any)["remaining"] != 4.0 {
		t.Fatalf("%d %v", status, granted)
	}
	if status, retryAfter, body := a.reserve("5"); status != http.StatusTooManyRequests || len(retryAfter) != 4 || body["type"] != quotaExceeded {
		t.Errorf("%d %s %v", status, retryAfter, body)
	}
	settler := middleware.Settler{URL: a.server.URL, Token: "machine"}
	reservation, _ := granted["reservation"].(string)
	if got, err := settler.Settle(t.Context(), reservation, 2); err != nil || got != (middleware.Settlement{Reserved: 6, Actual: 2}) {
		t.Errorf("%+v, %v", got, err)
	}
	var refused *middleware.SettleError
	if _, err := settler.Settle(t.Context(), reservation, 2); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		t.Errorf("once more: %v", err)
	}
	if status, _, body := a.reserve("8"); status != http.StatusCreated {
		t.Errorf("what came back: %d %v", status, body)
	}
}

func TestRefusals(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"", `{"keyId":"nobody","cost":1}`, 404},
		{"", `{"keyId":"` + a.key.ID + `","cost":1,"route":"no such"}`, 404},
		{"", `{"keyId":"` + a.key.ID + `","cost":0}`, 422},
		{"", `{"keyId":"` + a.key.ID + `"}`, 422},
		{"", `{"keyId":"` + a.key.ID + `","cost":11}`, 422},
		{"", `{"keyId":"` + a.key.ID + `","cost":-1}`, 422},
		{"", `{"keyId":"` + a.key.ID + `","cost":1e99}`, 400},
		{"", `{"keyId":"a","price":1}`, 400},
		{"", `{"keyId":"` + strings.Repeat("a", maxBody) + `"}`, 400},
		{"", `[]`, 400},
		{"/settle", `{"reservation":"","cost":1}`, 422},
		{"/settle", `{"reservation":"tgr_AAAA","cost":1}`, 422},
		{"/settle", ``, 400},
	} {
		status, _, body := a.post("/api/v1/reservations"+c.path, c.body)
		if status != c.status || body["status"] != float64(c.status) || body["detail"] == "" {
			t.Errorf("%.80s: %d %v, want %d", c.body, status, body, c.status)
		}
	}
	if _, err := a.store.Revoke(t.Context(), a.key.ID, a.key.Version, byTest); err != nil {
		t.Fatal(err)
	}
	if status, _, body := a.reserve("1"); status != http.StatusNotFound {
		t.Errorf("revoked: %d %v", status, body)
	}
}

// A ban is told with its end, and without a limit that would have been reached.
func TestBanned(t *testing.T) {
	a := newAPI(t)
	_, err := a.store.Update(t.Context(), a.key.ID, a.key.Version, "key.ban", byTest, func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	if status, retryAfter, body := a.reserve("1"); status != http.StatusTooManyRequests || body["type"] != aboutBlank || len(retryAfter) != 4 {
		t.Errorf("%d %s %v", status, retryAfter, body)
	}
}

// While Valkey is away nothing is granted, and what happened is not told.
func TestStoreAway(t *testing.T) {
	a := newAPI(t)
	a.server.Config.Handler = Handler(policy.NewChecker(closed(t), apikey.Pepper(strings.Repeat("pepper!!", 4))))
	if status, _, body := a.reserve("1"); status != http.StatusServiceUnavailable || strings.Contains(body["detail"].(string), "valkey") {
		t.Errorf("%d %v", status, body)
	}
}

// closed is a client that reaches nothing.
func closed(t *testing.T) valkey.Client {
	t.Helper()
	client, err := store.Open(t.Context(), valkeytest.Embedded(t), store.Options{Dial: 5 * time.Second, Write: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	return client
}
