package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

var (
	testPepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest     = registry.Edit{By: registry.Actor{Kind: "system", Name: "test"}}
	ada        = auth.Actor{ID: "password:ada", Name: "ada", Kind: auth.User, Role: auth.Editor}
	machine    = auth.Actor{ID: "token:x", Name: "ci", Kind: auth.Token, Role: auth.Editor}
)

// service is the API on a real Valkey, with one plan of 10 per 10 minutes. Requests are
// made as actor; package server tests which roles may do what. Operations of package
// keys are tested here too, since every response is validated against the OpenAPI document
// of all operations.
type service struct {
	t        testing.TB
	keys     *registry.Store
	tokens   *token.Store
	client   valkey.Client
	url      string
	log      *bytes.Buffer
	server   *httptest.Server
	document *openAPI
	actor    auth.Actor

	crossings *crossing.Store
	secrets   map[string]apikey.Secret // of created keys, by id
}

// limitsOf returns limits by their words.
func limitsOf(words ...string) []limits.Limit {
	var all []limits.Limit
	for _, text := range words {
		l, err := limits.Parse(text)
		if err != nil {
			panic(err)
		}
		all = append(all, l)
	}
	return all
}

func newService(t testing.TB) *service {
	t.Helper()
	return newServiceOn(t, valkeytest.Start(t))
}

// newServiceOn returns the API on a Valkey, with the ACL of the admin function.
func newServiceOn(t testing.TB, url string) *service {
	t.Helper()
	client := storetest.Connect(t, valkeytest.As(t, url, "admin", acl.Rules(acl.Admin())))
	s := &service{
		t: t, url: url, client: client, keys: registrytest.New(t, client, testPepper), log: &bytes.Buffer{},
		actor: ada, secrets: map[string]apikey.Secret{},
	}
	s.tokens = token.NewStore(s.keys, client, testPepper)
	s.serve(s.keys)
	s.readDocument()
	s.savePlans(policy.Plan{Name: "free", Limits: limitsOf("10 per 10 minutes")})
	return s
}

// serve starts the API on keys. The test continues to use s.keys directly.
func (s *service) serve(keys *registry.Store) {
	s.t.Helper()
	s.crossings = crossing.NewStore(s.client, slog.New(slog.DiscardHandler))
	checker := enforce.NewChecker(s.client, testPepper)
	routes := Routes("", Services{
		Keys:    app.NewRegistry(keys, records.NewReader(s.client, time.Now), checker),
		Checker: checker, Records: records.NewReader(s.client, time.Now),
		Crossings: s.crossings,
		Tokens:    s.tokens,
		Log:       slog.New(slog.NewTextHandler(s.log, nil)),
	})
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.Pattern, func(w http.ResponseWriter, req *http.Request) {
			if err := r.Handle(w, req.WithContext(auth.With(req.Context(), s.actor))); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.server = httptest.NewServer(mux)
	s.t.Cleanup(s.server.Close)
}

// readDocument gets the OpenAPI document as a client does. It validates all later
// responses.
func (s *service) readDocument() {
	s.t.Helper()
	text := s.send(http.MethodGet, "/openapi.json", nil, nil).text
	s.document = newOpenAPI(s.t, []byte(text))
}

func (s *service) savePlans(plans ...policy.Plan) {
	s.t.Helper()
	set, err := s.keys.Set(s.t.Context())
	if err == nil {
		set.Plans = append(set.Plans, plans...)
		_, err = s.keys.SaveSet(s.t.Context(), *set, byTest)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) create(name string) policy.Key {
	s.t.Helper()
	k, secret := registrytest.Create(s.t, s.keys, byTest,
		policy.NewKey{Name: name, Env: "test", Plan: "free"})
	s.secrets[k.ID] = secret
	return k
}

// checker returns a checker with the rights of the check function.
func (s *service) checker() *enforce.Checker {
	s.t.Helper()
	asCheck := valkeytest.As(s.t, s.url, "check", acl.Rules(acl.Check()))
	return enforce.NewChecker(storetest.Connect(s.t, asCheck), testPepper)
}

// call makes a check of a POST to a path with a key that create returned.
func (s *service) call(id, path string) enforce.Result {
	s.t.Helper()
	result, err := s.checker().Check(s.t.Context(), enforce.Call{
		Kind: policy.APIKey, Subject: id, Secret: s.secrets[id],
		Route: route.Call{Method: "POST", Path: path}})
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// calls makes checks that are allowed.
func (s *service) calls(id string, n int) {
	s.t.Helper()
	for range n {
		if !s.call(id, "/").Allowed {
			s.t.Fatal("a call was denied")
		}
	}
}

// reply is a response; body is its decoded JSON.
type reply struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	text   string
	body   map[string]any
}

type header map[string]string

// do sends a request and validates the response against the document. A body that is not
// bytes is sent as JSON.
func (s *service) do(method, path string, body any, headers header) reply {
	s.t.Helper()
	r := s.send(method, path, body, headers)
	s.document.check(s.t, method, Prefix+strings.SplitN(path, "?", 2)[0], r)
	return r
}

func (s *service) request(method, path string, body any, headers header) *http.Request {
	s.t.Helper()
	var content io.Reader
	contentType := ""
	switch b := body.(type) {
	case nil:
	case []byte:
		content, contentType = bytes.NewReader(b), "application/json"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		content, contentType = bytes.NewReader(text), "application/json"
	}
	request, err := http.NewRequestWithContext(context.Background(), method,
		s.server.URL+Prefix+path, content)
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return request
}

func (s *service) send(method, path string, body any, headers header) reply {
	s.t.Helper()
	response, err := s.server.Client().Do(s.request(method, path, body, headers))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	r := reply{t: s.t, what: method + " " + path, status: response.StatusCode, header: response.Header,
		text: string(text)}
	if strings.Contains(response.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &r.body); err != nil {
			s.t.Fatalf("%s: %v\n%s", r.what, err, text)
		}
	}
	return r
}

func (s *service) get(path string) reply { s.t.Helper(); return s.do(http.MethodGet, path, nil, nil) }

func (s *service) post(path string, body any) reply {
	s.t.Helper()
	return s.do(http.MethodPost, path, body, nil)
}

func (r reply) wants(status int, texts ...string) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: got status %d, want %d\n%s", r.what, r.status, status, r.text)
	}
	for _, text := range texts {
		if !strings.Contains(r.text, text) {
			r.t.Errorf("%s: got\n%s\nwant %s in it", r.what, r.text, text)
		}
	}
	return r
}

// at returns the value at a path of names and indices.
func (r reply) at(path ...any) any {
	r.t.Helper()
	var found any = r.body
	for _, step := range path {
		switch where := found.(type) {
		case map[string]any:
			found = where[fmt.Sprint(step)]
		case []any:
			i, _ := step.(int)
			if i >= len(where) {
				r.t.Fatalf("%s: nothing at %v in\n%s", r.what, path, r.text)
			}
			found = where[i]
		default:
			r.t.Fatalf("%s: nothing at %v in\n%s", r.what, path, r.text)
		}
	}
	return found
}

func (r reply) stringAt(path ...any) string {
	r.t.Helper()
	text, _ := r.at(path...).(string)
	return text
}

// newest returns the newest change of a subject, and false without one.
func (s *service) newest(subject string) (registry.AuditEntry, bool) {
	s.t.Helper()
	page, err := s.keys.Audit(s.t.Context(), registry.AuditQuery{Subject: subject, Count: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(page.Entries) == 0 {
		return registry.AuditEntry{}, false
	}
	return page.Entries[0], true
}
