package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
)

// ask makes a request that fits a route's pattern.
func (s *site) ask(pattern string) reply {
	s.t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{$}", "", "{id}", "AAAAAAAAAAAA", "{file}", "app-1.js").Replace(path)
	if method == http.MethodPost {
		return s.post(path, url.Values{})
	}
	return s.do(method, path, nil, nil)
}

// impersonate gives the client a session with a role.
func (s *site) impersonate(role string) {
	s.t.Helper()
	data, err := scs.GobCodec{}.Encode(time.Now().Add(time.Hour), map[string]any{
		sessionUser: "vic", sessionRole: role, sessionAccount: (&dashboard{Config: s.config}).account(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	const token = "a-token-that-only-the-test-knows"
	if err := s.service.Sessions.Commit(token, data, time.Now().Add(time.Hour)); err != nil {
		s.t.Fatal(err)
	}
	u, _ := url.Parse(s.base + "/")
	s.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-tidegate", Value: token, Path: "/", Secure: true}})
}

// A session ends when the user or the password that opened it changes, though the store still holds it.
func TestSessionEndsWithItsPassword(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"user":     func(c *Config) { c.User = "somebody-else" },
		"password": func(c *Config) { c.Password.hash += "x" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).login()
			s.get("/keys").wants(t, http.StatusOK)
			changed := s.config
			change(&changed)
			after, err := New(changed, s.service)
			if err != nil {
				t.Fatal(err)
			}
			s.server.Config.Handler = after
			if got := s.get("/keys"); got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/login") {
				t.Errorf("%d to %q, want the login", got.StatusCode, got.Header.Get("Location"))
			}
		})
	}
}

// Whoever is not logged in gets the login and nothing else, on every route but the public ones.
func TestStrangersAreDenied(t *testing.T) {
	s := newSite(t)
	public := map[string]int{
		"GET /healthz": http.StatusOK, "GET /static/{file}": http.StatusOK, "GET /login": http.StatusOK, "POST /login": http.StatusUnauthorized,
		"POST /theme": http.StatusBadRequest,
	}
	for _, r := range (&dashboard{}).routes() {
		got := s.ask(r.pattern)
		if want, ok := public[r.pattern]; ok {
			got.wants(t, want)
			continue
		}
		if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/login?next=") {
			t.Errorf("%s: %d to %q, want the login", r.pattern, got.StatusCode, got.Header.Get("Location"))
		}
		if strings.Contains(got.body, "acme") {
			t.Errorf("%s: shows a key", r.pattern)
		}
	}
}

// What is not in the list of routes is denied too, so that strangers cannot tell what exists.
func TestStrangersLearnNothing(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/nothing", "/keys/", "/keys/AAAAAAAAAAAA/x", "/static/", "/static/a/b", "/.git/config", "//evil.example/keys"} {
		got := s.get(path)
		if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/login?next=") {
			t.Errorf("%s: %d to %q, want the login", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	if got := s.post("/keys", nil); got.StatusCode != http.StatusSeeOther {
		t.Errorf("POST /keys: %d, want the login", got.StatusCode)
	}
}

// Each route answers a role as the list says: the expectations stand here once more, so that a change of the list is a change of this test.
func TestRoles(t *testing.T) {
	wants := map[string]map[string]int{
		"viewer": {
			"GET /{$}": 303, "GET /keys": 200, "GET /keys/{id}": 200, "GET /keys/{id}/limits": 403, "POST /keys/{id}/limits": 403,
			"GET /healthz": 200, "GET /static/{file}": 200, "GET /login": 303, "POST /login": 401, "POST /logout": 303,
			"POST /theme": 400, "GET /simulate": 200, "GET /simulate/calls": 200,
		},
		"editor": {
			"GET /{$}": 303, "GET /keys": 200, "GET /keys/{id}": 200, "GET /keys/{id}/limits": 200, "POST /keys/{id}/limits": 400,
			"GET /healthz": 200, "GET /static/{file}": 200, "GET /login": 303, "POST /login": 401, "POST /logout": 303,
			"POST /theme": 400, "GET /simulate": 200, "GET /simulate/calls": 200,
		},
		"no such role": {
			"GET /{$}": 303, "GET /keys": 303, "GET /keys/{id}": 303, "GET /keys/{id}/limits": 303, "POST /keys/{id}/limits": 303,
			"GET /healthz": 200, "GET /static/{file}": 200, "GET /login": 200, "POST /login": 401, "POST /logout": 303,
			"POST /theme": 400, "GET /simulate": 303, "GET /simulate/calls": 303,
		},
	}
	for role, want := range wants {
		t.Run(role, func(t *testing.T) {
			for _, r := range (&dashboard{}).routes() {
				s := newSite(t)
				s.impersonate(role)
				status, listed := want[r.pattern]
				if !listed {
					t.Errorf("%s is not in this test", r.pattern)
				}
				if got := s.ask(r.pattern); got.StatusCode != status {
					t.Errorf("%s: %d, want %d", r.pattern, got.StatusCode, status)
				}
				if s.keys.written() != 0 {
					t.Errorf("%s wrote", r.pattern)
				}
			}
		})
	}
}

func TestViewerSeesNoEdit(t *testing.T) {
	s := newSite(t)
	s.impersonate("viewer")
	if got := s.get("/keys/AAAAAAAAAAAA").wants(t, http.StatusOK); strings.Contains(got.body, "Edit limits") {
		t.Error("a viewer is offered the edit form")
	}
	s.post("/keys/AAAAAAAAAAAA/limits", limitsOf(1, [4]string{"99", "1", "hour", "log"})).wants(t, http.StatusForbidden)
	if s.keys.written() != 0 {
		t.Error("a viewer wrote")
	}
}

func TestUnknownPagesAndMethods(t *testing.T) {
	s := newSite(t).login()
	s.get("/nothing").wants(t, http.StatusNotFound, "There is nothing here")
	s.get("/keys/ZZZZZZZZZZZZ").wants(t, http.StatusNotFound, "No such key")
	s.get("/keys/%7Btag%7D").wants(t, http.StatusNotFound, "No such key")
	s.get("/keys/"+strings.Repeat("A", 5000)).wants(t, http.StatusNotFound, "No such key")
	got := s.post("/keys", nil).wants(t, http.StatusMethodNotAllowed)
	if allow := got.Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow: %q", allow)
	}
}

// An expired session on a live refresh takes the whole page to the login, and after it back to the same address.
func TestExpiredSessionOnRefresh(t *testing.T) {
	s := newSite(t)
	got := s.refresh("/keys?q=ac&live=5").wants(t, http.StatusUnauthorized)
	want := "/login?next=" + url.QueryEscape("/keys?q=ac&live=5")
	if to := got.Header.Get("HX-Redirect"); to != want {
		t.Fatalf("HX-Redirect %q, want %q", to, want)
	}
	got = s.post("/login", url.Values{"user": {testUser}, "password": {testSecret}, "next": {"/keys?q=ac&live=5"}}).wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/keys?q=ac&live=5" {
		t.Errorf("after the login: %q", to)
	}
}

// failingStore is a session store that is away for some of its methods.
type failingStore struct {
	scs.Store
	find, commit error
}

func (f *failingStore) Find(token string) ([]byte, bool, error) {
	if f.find != nil {
		return nil, false, f.find
	}
	return f.Store.Find(token)
}

func (f *failingStore) Commit(token string, b []byte, expiry time.Time) error {
	if f.commit != nil {
		return f.commit
	}
	return f.Store.Commit(token, b, expiry)
}

// A session store that does not answer lets nobody in.
func TestSessionStoreDown(t *testing.T) {
	store := &failingStore{Store: memstore.NewWithCleanupInterval(0)}
	s := newSite(t, withServices(func(services *Services) { services.Sessions = store })).login()
	store.find = errors.New("connection refused by 10.1.2.3")
	for _, path := range []string{"/keys", "/login", "/nothing", "//evil.example/"} {
		got := s.get(path).wants(t, http.StatusServiceUnavailable, "The store does not answer")
		if strings.Contains(got.body, "10.1.2.3") || strings.Contains(got.body, "acme") {
			t.Errorf("%s: gives away too much: %s", path, got.body)
		}
		for _, address := range addressesIn(got.body) {
			if strings.HasPrefix(address, "//") {
				t.Errorf("%s: links to %s", path, address)
			}
		}
	}
}

// A login whose session could not be saved says so, and no more.
func TestSessionNotSaved(t *testing.T) {
	store := &failingStore{Store: memstore.NewWithCleanupInterval(0), commit: errors.New("read only")}
	s := newSite(t, withServices(func(services *Services) { services.Sessions = store }))
	got := s.post("/login", url.Values{"user": {testUser}, "password": {testSecret}}).wants(t, http.StatusServiceUnavailable)
	if got.Header.Get("Location") != "" && got.StatusCode < 400 || strings.Count(got.body, "<!doctype html>") != 1 {
		t.Errorf("not one error page: %s", got.body)
	}
	if s.cookie() != nil {
		t.Error("a cookie for a session that does not exist")
	}
}

func TestHealth(t *testing.T) {
	var answer error
	s := newSite(t, withServices(func(services *Services) { services.Ready = func(context.Context) error { return answer } }))
	if got := s.get("/healthz").wants(t, http.StatusOK); got.body != "ok\n" {
		t.Errorf("body %q", got.body)
	}
	answer = errors.New("dial tcp 10.1.2.3:6379: refused")
	if got := s.get("/healthz").wants(t, http.StatusServiceUnavailable); got.body != "unavailable\n" {
		t.Errorf("body %q says too much", got.body)
	}
}

// A store that hangs is as bad as one that refuses: the check gives it a deadline.
func TestHealthDeadline(t *testing.T) {
	hang := func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	s := newSite(t, withServices(func(services *Services) { services.Ready = hang }))
	s.get("/healthz").wants(t, http.StatusServiceUnavailable)
}
