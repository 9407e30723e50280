package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
)

// fit makes a path that fits a route's pattern.
func fit(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.NewReplacer("{$}", "", "{id}", "{acme}", "{file}", "app-1.js", "{action}", "revoke", "{number}", "1", "{entry}",
		"1-0-1").Replace(path)
}

// ask makes a request that fits a route's pattern, as a page of this site would.
func (s *site) ask(pattern string) reply {
	s.t.Helper()
	method, path := fit(pattern)
	return s.request(method, path, nil)
}

func (s *site) request(method, path string, header http.Header) reply {
	s.t.Helper()
	if header == nil {
		header = http.Header{}
	}
	if method != http.MethodGet && method != http.MethodHead {
		if strings.HasPrefix(path, "/api/") {
			path += "?unknown=1" // so that the API knows who asks, and changes nothing
		}
		header["Sec-Fetch-Site"] = []string{"same-origin"}
		header["Content-Type"] = []string{"application/x-www-form-urlencoded"}
	}
	return s.do(method, path, nil, header)
}

// requests is what each route answers to nobody, a viewer and an editor. It stands here
// once more, so that a change of the routes is a change of this test. Login means the way
// to the login.
const login = 303_000

var requests = map[string][3]int{
	"GET /healthz":                           {200, 200, 200},
	"GET /healthz/live":                      {200, 200, 200},
	"GET /static/{file}":                     {200, 200, 200},
	"GET /login":                             {200, 303, 303},
	"POST /login":                            {401, 401, 401},
	"GET /login/oidc":                        {404, 404, 404},
	"GET /login/oidc/callback":               {404, 404, 404},
	"POST /logout":                           {login, 303, 303},
	"POST /theme":                            {400, 400, 400},
	"GET /{$}":                               {login, 200, 200},
	"GET /simulate":                          {login, 200, 200},
	"GET /simulate/calls":                    {login, 200, 200},
	"GET /explain":                           {login, 200, 200},
	"GET /keys":                              {login, 200, 200},
	"GET /keys.csv":                          {login, 200, 200},
	"GET /keys/new":                          {login, 403, 200},
	"POST /keys":                             {login, 403, 422},
	"GET /keys/bulk":                         {login, 403, 400},
	"POST /keys/bulk":                        {login, 403, 400},
	"GET /keys/job":                          {login, 403, 400},
	"POST /keys/job":                         {login, 403, 400},
	"GET /keys/{id}":                         {login, 200, 200},
	"GET /keys/{id}/limits":                  {login, 403, 200},
	"POST /keys/{id}/limits":                 {login, 403, 400},
	"GET /keys/{id}/{action}":                {login, 403, 200},
	"POST /keys/{id}/{action}":               {login, 403, 400},
	"GET /callers":                           {login, 200, 200},
	"GET /callers/{id}":                      {login, 303, 303},
	"GET /callers/new":                       {login, 403, 200},
	"POST /callers/new":                      {login, 403, 422},
	"GET /policies":                          {login, 200, 200},
	"GET /policies.yaml":                     {login, 200, 200},
	"GET /policies/import":                   {login, 403, 200},
	"POST /policies/import":                  {login, 403, 400},
	"POST /policies/sync":                    {login, 403, 303},
	"GET /policies/plans/new":                {login, 403, 200},
	"POST /policies/plans/new":               {login, 403, 400},
	"GET /policies/plans/{number}":           {login, 403, 200},
	"POST /policies/plans/{number}":          {login, 403, 400},
	"GET /policies/plans/{number}/{action}":  {login, 403, 404},
	"POST /policies/plans/{number}/{action}": {login, 403, 404},
	"GET /policies/rules/new":                {login, 403, 200},
	"GET /policies/rules/edit":               {login, 403, 400},
	"POST /policies/rules":                   {login, 403, 400},
	"GET /policies/rules/delete":             {login, 403, 404},
	"POST /policies/rules/delete":            {login, 403, 400},
	"GET /policies/shared":                   {login, 403, 200},
	"POST /policies/shared":                  {login, 403, 400},
	"GET /overrides":                         {login, 200, 200},
	"GET /audit":                             {login, 200, 200},
	"GET /audit.csv":                         {login, 200, 200},
	"GET /audit/verify":                      {login, 200, 200},
	"GET /audit/{entry}/revert":              {login, 403, 404},
	"POST /audit/{entry}/revert":             {login, 403, 400},
	"POST /audit/{entry}/undo":               {login, 403, 404},
	"GET /settings":                          {login, 200, 200},
	"POST /settings/sessions/end":            {login, 303, 303},
	"POST /settings/tokens":                  {login, 403, 422},
	"POST /settings/tokens/{id}/revoke":      {login, 403, 303},
	"GET /api/v1/me":                         {401, 200, 200},
	"GET /api/v1/openapi.json":               {401, 200, 200},
	"GET /api/v1/keys":                       {401, 200, 200},
	"POST /api/v1/keys":                      {401, 403, 422},
	"GET /api/v1/callers":                    {401, 200, 200},
	"POST /api/v1/callers":                   {401, 403, 422},
	"POST /api/v1/bulk":                      {401, 403, 422},
	"GET /api/v1/keys/{id}":                  {401, 200, 200},
	"PATCH /api/v1/keys/{id}":                {401, 403, 422},
	"DELETE /api/v1/keys/{id}":               {401, 403, 422},
	"GET /api/v1/keys/{id}/usage":            {401, 200, 200},
	"PUT /api/v1/keys/{id}/override":         {401, 403, 422},
	"DELETE /api/v1/keys/{id}/override":      {401, 403, 422},
	"POST /api/v1/keys/{id}/revoke":          {401, 403, 422},
	"POST /api/v1/keys/{id}/unrevoke":        {401, 403, 422},
	"POST /api/v1/keys/{id}/ban":             {401, 403, 422},
	"POST /api/v1/keys/{id}/unban":           {401, 403, 422},
	"POST /api/v1/keys/{id}/reset":           {401, 403, 422},
	"POST /api/v1/keys/{id}/rotate":          {401, 403, 422},
	"GET /api/v1/policy":                     {401, 200, 200},
	"PUT /api/v1/policy":                     {401, 403, 422},
	"GET /api/v1/policy.yaml":                {401, 200, 200},
	"PUT /api/v1/policy.yaml":                {401, 403, 422},
	"POST /api/v1/policy/sync":               {401, 403, 422},
	"GET /api/v1/plans":                      {401, 200, 200},
	"GET /api/v1/audit":                      {401, 200, 200},
	"GET /api/v1/audit/verify":               {401, 200, 200},
	"GET /api/v1/audit/{entry}":              {401, 404, 404},
	"POST /api/v1/audit/{entry}/revert":      {401, 403, 422},
	"GET /api/v1/explain":                    {401, 422, 422},
	"GET /api/v1/overview":                   {401, 200, 200},
	"POST /api/v1/simulate":                  {401, 422, 422},
	"POST /api/v1/simulate/lab":              {401, 422, 422},
	"GET /api/v1/tokens":                     {401, 403, 200},
	"POST /api/v1/tokens":                    {401, 403, 422},
	"DELETE /api/v1/tokens/{id}":             {401, 403, 422},
	"POST /api/v1/reservations":              {401, 403, 422},
	"POST /api/v1/reservations/settle":       {401, 403, 422},
}

const (
	asNobody = iota
	asViewer
	asEditor
	asSettler // on the API alone: what a viewer may not, and one thing that an editor may
)

// caller is somebody who asks. Machines have a rank on the API only.
type caller struct {
	name      string
	rank      int
	machine   bool
	authorize func(s *site, header http.Header) // before each request
}

func (s *site) newToken(scope token.Scope) string {
	s.t.Helper()
	_, secret, err := s.tokens.Create(s.t.Context(), token.New{Name: "t", Scope: scope, Expires: time.Now().Add(time.Hour), By: byTest.By})
	if err != nil {
		s.t.Fatal(err)
	}
	return secret.Reveal()
}

func withSessionOf(user string) func(*site, http.Header) {
	return func(s *site, _ http.Header) {
		if s.cookie() == nil {
			s.loginAs(user)
		}
	}
}

func withTokenOf(scope token.Scope) func(*site, http.Header) {
	text := ""
	return func(s *site, h http.Header) {
		if text == "" {
			text = s.newToken(scope)
		}
		h.Set("Authorization", "Bearer "+text)
	}
}

func callers() []caller {
	return []caller{
		{"nobody", asNobody, false, func(*site, http.Header) {}},
		{"viewer", asViewer, false, withSessionOf(testViewer)},
		{"editor", asEditor, false, withSessionOf(testUser)},
		{"expired session", asNobody, false, func(s *site, _ http.Header) {
			s.login()
			s.store.FastForward(testIdle + time.Second)
		}},
		{"read token", asViewer, true, withTokenOf(token.Read)},
		{"write token", asEditor, true, withTokenOf(token.Write)},
		{"settle token", asSettler, true, withTokenOf(token.Settle)},
		{"revoked token", asNobody, true, func(s *site, h http.Header) {
			text := s.newToken(token.Write)
			if err := s.tokens.Revoke(s.t.Context(), text[len("tga_"):][:12], byTest.By); err != nil {
				s.t.Fatal(err)
			}
			h.Set("Authorization", "Bearer "+text)
		}},
		{"made-up token", asNobody, true, func(_ *site, h http.Header) { h.Set("Authorization", "Bearer tga_"+strings.Repeat("a", 49)) }},
	}
}

// Every route and method answers every caller as the table says, and what is not in the
// table answers nobody anything.
func TestRoutesAndRoles(t *testing.T) {
	routes := newServer(Config{}, Services{}, false).routes()
	if len(routes) != len(requests) {
		t.Errorf("%d routes, but %d in this test", len(routes), len(requests))
	}
	for _, c := range callers() {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			for _, r := range routes {
				want, listed := requests[r.pattern]
				if !listed {
					t.Fatalf("%s is not in this test", r.pattern)
				}
				method, path := fit(r.pattern)
				for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
					_, elsewhere := requests[strings.Replace(m, "HEAD", "GET", 1)+strings.TrimPrefix(r.pattern, method)]
					switch {
					case m == method || m == "HEAD" && method == "GET":
						s.try(c, m, path, want)
					case !elsewhere:
						s.try(c, m, path, unlisted(path))
					}
				}
			}
			if s.keys.written() != 0 {
				t.Error("something was written")
			}
		})
	}
}

// unlisted is what a path answers to a method that it does not know.
func unlisted(path string) [3]int {
	if strings.HasPrefix(path, "/api/") {
		return [3]int{401, 405, 405}
	}
	return [3]int{login, 405, 405}
}

func (s *site) try(c caller, method, path string, want [3]int) {
	s.t.Helper()
	header := http.Header{}
	c.authorize(s, header)
	status := want[asNobody]
	switch machines := strings.HasPrefix(path, "/api/"); {
	case c.rank == asSettler && machines && method == http.MethodPost && path == "/api/v1/reservations/settle":
		status = want[asEditor]
	case c.rank == asSettler && machines:
		status = http.StatusForbidden
	case !c.machine || machines:
		status = want[c.rank]
	}
	got := s.request(method, path, header)
	toLogin := strings.HasPrefix(got.Header.Get("Location"), "/login?next=")
	if toLogin != (status == login) || got.StatusCode != status && (status != login || got.StatusCode != http.StatusSeeOther) {
		s.t.Errorf("%s %s: %d to %q, want %d", method, path, got.StatusCode, got.Header.Get("Location"), status)
	}
	if status == login && strings.Contains(got.body, ">acme<") {
		s.t.Errorf("%s %s: shows a key to nobody", method, path)
	}
}

// A route that does not say who may ask for it stops the start.
func TestRouteWithoutNeed(t *testing.T) {
	d := &server{Renderer: &page.Renderer{}}
	for _, n := range []need{undecided, -1, settler + 1} {
		if _, _, err := d.newMux([]route{{pattern: "GET /x", need: n, handle: d.health}}); err == nil || !strings.Contains(err.Error(), "GET /x") {
			t.Errorf("%d: %v", n, err)
		}
		if n.metBy(mightyActor) {
			t.Errorf("%d is met", n)
		}
	}
}

// What is not in the list of routes is denied too, so that strangers cannot tell what
// exists.
func TestStrangersLearnNothing(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/nothing", "/keys/", "/keys/{acme}/x", "/static/", "/static/a/b", "/.git/config", "//evil.example/keys"} {
		got := s.get(path)
		if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/login?next=") {
			t.Errorf("%s: %d to %q, want the login", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	if got := s.post("/keys", nil); got.StatusCode != http.StatusSeeOther {
		t.Errorf("POST /keys: %d, want the login", got.StatusCode)
	}
	s.get("/api/v1/nothing").wants(t, http.StatusUnauthorized)
}

// A viewer is offered no change on any page.
func TestViewerSeesNoEdit(t *testing.T) {
	s := newSite(t).loginAs(testViewer)
	for _, path := range []string{"/", "/keys", "/keys/{acme}", "/policies", "/overrides", "/audit", "/explain?key={acme}", "/settings"} {
		body := s.get(path).wants(t, http.StatusOK, "viewer").body
		for _, control := range []string{
			"Override limits", "/limits", "/settings/tokens", "Make the token", "/revert", "Create a", "checkbox\" name=\"id", "/policies/plans",
			"/policies/rules", "/edit",
		} {
			if strings.Contains(body, control) {
				t.Errorf("%s offers %q", path, control)
			}
		}
	}
	s.post("/keys/{acme}/limits", limitsOf(1, [4]string{"99", "1", "hour", "log"})).wants(t, http.StatusForbidden)
	if s.keys.written() != 0 {
		t.Error("a viewer wrote")
	}
	s.login().get("/keys/{acme}").wants(t, http.StatusOK, "Override limits", "editor")
}

func TestUnknownPagesAndMethods(t *testing.T) {
	s := newSite(t).login()
	s.get("/nothing").wants(t, http.StatusNotFound, "There is nothing here")
	s.get("/keys/ZZZZZZZZZZZZ").wants(t, http.StatusNotFound, "No such key")
	s.get("/keys/%7Btag%7D").wants(t, http.StatusNotFound, "No such key")
	s.get("/keys/"+strings.Repeat("A", 5000)).wants(t, http.StatusNotFound, "No such key")
	got := s.post("/overrides", nil).wants(t, http.StatusMethodNotAllowed)
	if allow := got.Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow: %q", allow)
	}
}

// An expired session on a live refresh takes the whole page to the login, and after it
// back to the same address.
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
	*session.Store
	find, commit error
}

func (f *failingStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	if f.find != nil {
		return nil, false, f.find
	}
	return f.Store.FindCtx(ctx, token)
}

func (f *failingStore) CommitCtx(ctx context.Context, token string, b []byte, expiry time.Time) error {
	if f.commit != nil {
		return f.commit
	}
	return f.Store.CommitCtx(ctx, token, b, expiry)
}

// withFailing puts the store in front of the real one.
func withFailing(f *failingStore) option {
	return withServices(func(services *Services) {
		f.Store, _ = services.Sessions.(*session.Store)
		services.Sessions = f
	})
}

// A session store that does not answer lets nobody in.
func TestSessionStoreDown(t *testing.T) {
	store := &failingStore{}
	s := newSite(t, withFailing(store)).login()
	store.find = errors.New("connection refused by 10.1.2.3")
	for _, path := range []string{"/keys", "/login", "/nothing", "//evil.example/"} {
		got := s.get(path).wants(t, http.StatusServiceUnavailable, "The store does not answer")
		if strings.Contains(got.body, "10.1.2.3") || strings.Contains(got.body, ">acme<") {
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
	s := newSite(t, withFailing(&failingStore{commit: errors.New("read only")}))
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
	if got := s.get("/healthz").wants(t, http.StatusOK); got.body != "alive\nstore ready\n" {
		t.Errorf("body %q", got.body)
	}
	answer = errors.New("dial tcp 10.1.2.3:6379: refused")
	if got := s.get("/healthz").wants(t, http.StatusServiceUnavailable); got.body != "alive\nstore away\n" {
		t.Errorf("body %q says too much", got.body)
	}
}

// While the store is away this function is alive all the same.
func TestAlive(t *testing.T) {
	s := newSite(t, withServices(func(services *Services) { services.Ready = func(context.Context) error { return errors.New("away") } }))
	if got := s.get("/healthz/live").wants(t, http.StatusOK); got.body != "alive\n" {
		t.Errorf("body %q", got.body)
	}
	if got := s.get("/healthz").wants(t, http.StatusServiceUnavailable); got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
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
