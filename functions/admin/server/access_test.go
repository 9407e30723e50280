package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// login stands for a redirect to the log-in.
const login = 303_000

// requests has the status of each route for nobody, a viewer and an editor. The list
// repeats the routes, so that a change of them needs a change of this test.
var requests = map[string][3]int{
	"GET /healthz":                          {200, 200, 200},
	"GET /healthz/live":                     {200, 200, 200},
	"GET /static/{file}":                    {200, 200, 200},
	"GET /login":                            {200, 303, 303},
	"POST /login":                           {401, 401, 401},
	"GET /login/oidc":                       {404, 404, 404},
	"GET /login/oidc/callback":              {404, 404, 404},
	"GET /resume":                           {login, 200, 200},
	"POST /logout":                          {login, 303, 303},
	"POST /theme":                           {400, 400, 400},
	"GET /{$}":                              {login, 200, 200},
	"GET /explain":                          {login, 200, 200},
	"GET /keys":                             {login, 200, 200},
	"GET /search":                           {login, 200, 200},
	"POST /search":                          {login, 303, 303},
	"GET /keys.csv":                         {login, 200, 200},
	"GET /keys/new":                         {login, 403, 200},
	"POST /keys":                            {login, 403, 422},
	"GET /keys/bulk":                        {login, 403, 400},
	"POST /keys/bulk":                       {login, 403, 400},
	"GET /keys/{id}":                        {login, 200, 200},
	"GET /keys/{id}/limits":                 {login, 403, 200},
	"POST /keys/{id}/limits":                {login, 403, 400},
	"GET /secrets/{id}":                     {login, 403, 410},
	"GET /alerts.csv":                       {login, 200, 200},
	"GET /groups.csv":                       {login, 200, 200},
	"GET /callers.csv":                      {login, 200, 200},
	"GET /keys/{id}/edit":                   {login, 403, 200},
	"POST /keys/{id}/edit":                  {login, 403, 400},
	"GET /keys/{id}/delete":                 {login, 403, 200},
	"POST /keys/{id}/delete":                {login, 403, 400},
	"GET /keys/{id}/end":                    {login, 403, 404},
	"POST /keys/{id}/end":                   {login, 403, 404},
	"GET /keys/{id}/revoke":                 {login, 403, 200},
	"POST /keys/{id}/revoke":                {login, 403, 400},
	"GET /keys/{id}/unrevoke":               {login, 403, 409},
	"POST /keys/{id}/unrevoke":              {login, 403, 409},
	"GET /keys/{id}/ban":                    {login, 403, 200},
	"POST /keys/{id}/ban":                   {login, 403, 400},
	"GET /keys/{id}/unban":                  {login, 403, 200},
	"POST /keys/{id}/unban":                 {login, 403, 400},
	"GET /keys/{id}/reset":                  {login, 403, 200},
	"POST /keys/{id}/reset":                 {login, 403, 400},
	"GET /keys/{id}/rotate":                 {login, 403, 200},
	"POST /keys/{id}/rotate":                {login, 403, 400},
	"GET /keys/{id}/expire-secret":          {login, 403, 200},
	"POST /keys/{id}/expire-secret":         {login, 403, 400},
	"GET /callers":                          {login, 200, 200},
	"GET /callers/{id}":                     {login, 303, 303},
	"GET /callers/new":                      {login, 403, 200},
	"POST /callers/new":                     {login, 403, 422},
	"GET /policies":                         {login, 200, 200},
	"GET /policies.yaml":                    {login, 200, 200},
	"GET /policies/import":                  {login, 403, 200},
	"POST /policies/import":                 {login, 403, 400},
	"GET /policies/plans/new":               {login, 403, 200},
	"POST /policies/plans/new":              {login, 403, 400},
	"GET /policies/plans/{number}":          {login, 200, 200},
	"GET /policies/plans.csv":               {login, 200, 200},
	"GET /policies/routes.csv":              {login, 200, 200},
	"GET /policies/plans/{number}/edit":     {login, 403, 200},
	"POST /policies/plans/{number}/edit":    {login, 403, 400},
	"GET /policies/plans/{number}/delete":   {login, 403, 200},
	"POST /policies/plans/{number}/delete":  {login, 403, 400},
	"GET /policies/routes/new":              {login, 403, 200},
	"GET /policies/routes/edit":             {login, 403, 404},
	"POST /policies/routes/new":             {login, 403, 400},
	"POST /policies/routes/edit":            {login, 403, 404},
	"GET /policies/routes/delete":           {login, 403, 404},
	"POST /policies/routes/delete":          {login, 403, 404},
	"GET /policies/enforce":                 {login, 403, 404},
	"POST /policies/enforce":                {login, 403, 404},
	"GET /policies/all":                     {login, 403, 200},
	"POST /policies/all":                    {login, 403, 400},
	"GET /groups":                           {login, 200, 200},
	"GET /groups/{name}":                    {login, 404, 404},
	"GET /groups/{name}/reset":              {login, 403, 404},
	"POST /groups/{name}/reset":             {login, 403, 404},
	"GET /groups/{name}/limits":             {login, 403, 404},
	"POST /groups/{name}/limits":            {login, 403, 404},
	"GET /groups/{name}/billing":            {login, 403, 404},
	"POST /groups/{name}/billing":           {login, 403, 404},
	"GET /groups/{name}/end":                {login, 403, 404},
	"POST /groups/{name}/end":               {login, 403, 404},
	"GET /overrides":                        {login, 301, 301},
	"GET /denials":                          {login, 200, 200},
	"GET /denials.csv":                      {login, 200, 200},
	"GET /api/v1/denials":                   {401, 200, 200},
	"GET /alerts":                           {login, 200, 200},
	"POST /alerts/test":                     {login, 403, 303},
	"GET /api/v1/crossings":                 {401, 200, 200},
	"POST /api/v1/crossings/test":           {401, 403, 422},
	"GET /audit":                            {login, 200, 200},
	"GET /audit.csv":                        {login, 200, 200},
	"GET /audit/{number}/undo":              {login, 403, 409},
	"POST /audit/{number}/undo":             {login, 403, 409},
	"GET /settings":                         {login, 200, 200},
	"POST /settings/sessions/end":           {login, 303, 303},
	"GET /settings/tokens/new":              {login, 403, 200},
	"GET /settings/tokens.csv":              {login, 403, 200},
	"POST /settings/tokens/new":             {login, 403, 422},
	"POST /settings/tokens/{id}/revoke":     {login, 403, 404},
	"GET /api/v1/self":                      {401, 401, 401},
	"GET /api/v1/me":                        {401, 200, 200},
	"GET /api/v1/openapi.json":              {401, 200, 200},
	"GET /api/v1/keys":                      {401, 200, 200},
	"POST /api/v1/keys":                     {401, 403, 422},
	"GET /api/v1/callers":                   {401, 200, 200},
	"POST /api/v1/callers":                  {401, 403, 422},
	"POST /api/v1/bulk/plan":                {401, 403, 422},
	"POST /api/v1/bulk/override":            {401, 403, 422},
	"POST /api/v1/bulk/ban":                 {401, 403, 422},
	"POST /api/v1/bulk/revoke":              {401, 403, 422},
	"POST /api/v1/bulk/tag":                 {401, 403, 422},
	"POST /api/v1/bulk/untag":               {401, 403, 422},
	"POST /api/v1/bulk/group":               {401, 403, 422},
	"POST /api/v1/bulk/expiry":              {401, 403, 422},
	"POST /api/v1/bulk/end":                 {401, 403, 422},
	"POST /api/v1/bulk/unban":               {401, 403, 422},
	"POST /api/v1/bulk/reset":               {401, 403, 422},
	"POST /api/v1/plans":                    {401, 403, 422},
	"PUT /api/v1/plans/{number}":            {401, 403, 422},
	"DELETE /api/v1/plans/{number}":         {401, 403, 422},
	"POST /api/v1/routes":                   {401, 403, 422},
	"PUT /api/v1/routes":                    {401, 403, 422},
	"DELETE /api/v1/routes":                 {401, 403, 422},
	"PUT /api/v1/all-callers":               {401, 403, 422},
	"POST /api/v1/limits/enforce":           {401, 403, 422},
	"POST /api/v1/import":                   {401, 403, 422},
	"GET /api/v1/keys/{id}":                 {401, 200, 200},
	"PATCH /api/v1/keys/{id}":               {401, 403, 422},
	"DELETE /api/v1/keys/{id}":              {401, 403, 422},
	"GET /api/v1/keys/{id}/usage":           {401, 200, 200},
	"PUT /api/v1/keys/{id}/override":        {401, 403, 422},
	"DELETE /api/v1/keys/{id}/override":     {401, 403, 422},
	"POST /api/v1/keys/{id}/revoke":         {401, 403, 422},
	"POST /api/v1/keys/{id}/unrevoke":       {401, 403, 422},
	"POST /api/v1/keys/{id}/ban":            {401, 403, 422},
	"POST /api/v1/keys/{id}/unban":          {401, 403, 422},
	"POST /api/v1/keys/{id}/reset":          {401, 403, 422},
	"POST /api/v1/keys/{id}/rotate":         {401, 403, 422},
	"POST /api/v1/keys/{id}/expire-secret":  {401, 403, 422},
	"GET /api/v1/groups":                    {401, 200, 200},
	"GET /api/v1/groups/{name}":             {401, 404, 404},
	"POST /api/v1/groups/{name}/reset":      {401, 403, 422},
	"PUT /api/v1/groups/{name}/override":    {401, 403, 422},
	"PUT /api/v1/groups/{name}/billing":     {401, 403, 422},
	"DELETE /api/v1/groups/{name}/override": {401, 403, 422},
	"GET /api/v1/policy":                    {401, 200, 200},
	"PUT /api/v1/policy":                    {401, 403, 422},
	"GET /api/v1/policy.yaml":               {401, 200, 200},
	"PUT /api/v1/policy.yaml":               {401, 403, 422},
	"GET /api/v1/plans":                     {401, 200, 200},
	"GET /api/v1/routes":                    {401, 200, 200},
	"GET /api/v1/sessions":                  {401, 200, 200},
	"GET /api/v1/audit":                     {401, 200, 200},
	"GET /api/v1/log":                       {401, 200, 200},
	"GET /api/v1/audit/{number}":            {401, 200, 200},
	"POST /api/v1/audit/{number}/undo":      {401, 403, 422},
	"GET /api/v1/explain":                   {401, 422, 422},
	"GET /api/v1/overview":                  {401, 200, 200},
	"GET /api/v1/tokens":                    {401, 403, 200},
	"POST /api/v1/tokens":                   {401, 403, 422},
	"DELETE /api/v1/tokens/{id}":            {401, 403, 422},
	"POST /api/v1/settlements":              {401, 403, 422},
}

const (
	asNobody = iota
	asViewer
	asEditor
	asSettler // may settle calls on the API, and nothing else
)

// caller is the sender of requests. Machines have a rank on the API only.
type caller struct {
	name      string
	rank      int
	machine   bool
	authorize func(s *sitetest.Site, header http.Header) // before each request
}

func withSessionOf(user string) func(*sitetest.Site, http.Header) {
	return func(s *sitetest.Site, _ http.Header) {
		if s.Cookie() == nil {
			s.LoginAs(user)
		}
	}
}

func withTokenOf(scope token.Scope) func(*sitetest.Site, http.Header) {
	text := ""
	return func(s *sitetest.Site, h http.Header) {
		if text == "" {
			text = s.NewToken(scope)
		}
		h.Set("Authorization", "Bearer "+text)
	}
}

// withRevokedToken revokes its token before the first request alone, since an edit is slow
// on the embedded server.
func withRevokedToken() func(*sitetest.Site, http.Header) {
	text := ""
	return func(s *sitetest.Site, h http.Header) {
		if text == "" {
			text = s.NewToken(token.Write)
			err := s.Tokens.Revoke(s.T.Context(), text[len("tga_"):][:12], sitetest.ByTest.By)
			s.Keys.Must(err)
		}
		h.Set("Authorization", "Bearer "+text)
	}
}

func callers() []caller {
	return []caller{
		{"nobody", asNobody, false, func(*sitetest.Site, http.Header) {}},
		{"viewer", asViewer, false, withSessionOf(sitetest.Viewer)},
		{"editor", asEditor, false, withSessionOf(sitetest.User)},
		{"expired session", asNobody, false, func(s *sitetest.Site, _ http.Header) {
			s.Login()
			s.Store.FastForward(sitetest.Idle + time.Second)
		}},
		{"read token", asViewer, true, withTokenOf(token.Read)},
		{"write token", asEditor, true, withTokenOf(token.Write)},
		{"settle token", asSettler, true, withTokenOf(token.Settle)},
		{"revoked token", asNobody, true, withRevokedToken()},
		{"invented token", asNobody, true, func(_ *sitetest.Site, h http.Header) {
			h.Set("Authorization", "Bearer tga_"+strings.Repeat("a", 49))
		}},
	}
}

// Every route gives every caller the status in requests. Other methods of its path are
// refused; only tier 2 tries them.
func TestRoutesAndRoles(t *testing.T) {
	routes := server.Patterns()
	if len(routes) != len(requests) {
		t.Errorf("got %d routes, want the %d of this test", len(routes), len(requests))
	}
	for _, c := range callers() {
		t.Run(c.name, func(t *testing.T) {
			s := sitetest.New(t)
			for _, r := range routes {
				want, listed := requests[r]
				if !listed {
					t.Fatalf("%s is not in requests", r)
				}
				method, path := sitetest.Fit(r)
				for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
					if testing.Short() && m != method {
						continue
					}
					_, elsewhere := requests[strings.Replace(m, "HEAD", "GET", 1)+
						strings.TrimPrefix(r, method)]
					switch {
					case m == method || m == "HEAD" && method == "GET":
						tryAs(s, c, m, path, want)
					case !elsewhere:
						tryAs(s, c, m, path, unlisted(path))
					}
				}
			}
			if s.Keys.Written() != 0 {
				t.Error("a request made a change")
			}
		})
	}
}

// unlisted returns the statuses of a path for a method without a route.
func unlisted(path string) [3]int {
	if strings.HasPrefix(path, "/api/") {
		return [3]int{401, 405, 405}
	}
	return [3]int{login, 405, 405}
}

func tryAs(s *sitetest.Site, c caller, method, path string, want [3]int) {
	s.T.Helper()
	header := http.Header{}
	c.authorize(s, header)
	status := want[asNobody]
	switch machines := strings.HasPrefix(path, "/api/"); {
	case c.rank == asSettler && machines && method == http.MethodPost &&
		path == "/api/v1/settlements":
		status = want[asEditor]
	case machines && path == server.OwnerPath && want == requests["GET "+path]:
	case c.rank == asSettler && machines:
		status = http.StatusForbidden
	case !c.machine || machines:
		status = want[c.rank]
	}
	got := sitetest.SendAs(s, method, path, header)
	toLogin := strings.HasPrefix(got.Header.Get("Location"), "/login?next=")
	if toLogin != (status == login) || got.StatusCode != status &&
		(status != login || got.StatusCode != http.StatusSeeOther) {
		s.T.Errorf("%s %s: got %d to %q, want %d", method, path, got.StatusCode,
			got.Header.Get("Location"), status)
	}
	if status == login && strings.Contains(got.Body, ">acme<") {
		s.T.Errorf("%s %s: shows a key without a session", method, path)
	}
}

// While a file that is no change stops edits, pages and API name it.
func TestStrayFileIsNamed(t *testing.T) {
	s := sitetest.New(t).Login()
	write := sitetest.Bearer(s.NewToken(token.Write))
	const name = "changes/notes.txt"
	if err := os.WriteFile(filepath.Join(s.Keys.LogAt, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Get("/settings").Wants(t, http.StatusOK, name+" in the store of the log is not a change")
	s.Post("/keys/{acme}/limits", sitetest.LimitsForm("{acme#}", "9 per hour")).
		Wants(t, http.StatusServiceUnavailable, name+" in the store of the log", "Move it away")
	s.Do(http.MethodDelete, "/api/v1/keys/{acme}", nil, write).
		Wants(t, http.StatusServiceUnavailable, name, "Move it away")
	s.Do(http.MethodGet, "/api/v1/log", nil, write).
		Wants(t, http.StatusOK, `"problem":"stray"`, `"object":"`+name+`"`)
}

// Without a session, a path without a route gets the same answer as a page, so that
// nobody can find out which paths exist.
func TestUnknownPathsWithoutSession(t *testing.T) {
	s := sitetest.New(t)
	for _, path := range []string{"/nothing", "/keys/", "/keys/{acme}/x", "/static/", "/static/a/b",
		"/.git/config", "//evil.example/keys"} {
		got := s.Get(path)
		if got.StatusCode != http.StatusSeeOther ||
			!strings.HasPrefix(got.Header.Get("Location"), "/login?next=") {
			t.Errorf("%s: got %d to %q, want the login", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	if got := s.Post("/keys", nil); got.StatusCode != http.StatusSeeOther {
		t.Errorf("POST /keys: got %d, want the login", got.StatusCode)
	}
	s.Get("/api/v1/nothing").Wants(t, http.StatusUnauthorized)
}

// Pages offer no change to a viewer.
func TestViewerSeesNoEdit(t *testing.T) {
	s := sitetest.New(t).LoginAs(sitetest.Viewer)
	for _, path := range []string{"/", "/keys", "/keys/{acme}", "/policies", "/policies/plans/1",
		"/keys?state=overridden", "/audit", "/explain?key={acme}", "/settings"} {
		body := s.Get(path).Wants(t, http.StatusOK, "viewer").Body
		for _, control := range []string{
			"Override limits", "/limits", "/settings/tokens/new", "Create token", "/revert", "Create a",
			"checkbox\" name=\"id", "/policies/plans/new", "/keys/new",
			"/policies/rules", "/edit",
		} {
			if strings.Contains(body, control) {
				t.Errorf("%s offers %q", path, control)
			}
		}
	}
	s.Post("/keys/{acme}/limits",
		sitetest.LimitsForm("{acme#}", "99 per hour")).Wants(t, http.StatusForbidden)
	if s.Keys.Written() != 0 {
		t.Error("a viewer made a change")
	}
	s.Login().Get("/keys/{acme}").Wants(t, http.StatusOK, "Override limits", "editor")
}

func TestUnknownPagesAndMethods(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/nothing").Wants(t, http.StatusNotFound, "Not found")
	s.Get("/keys/ZZZZZZZZZZZZ").Wants(t, http.StatusNotFound, "Key not found")
	s.Get("/keys/%7Btag%7D").Wants(t, http.StatusNotFound, "Key not found")
	s.Get("/keys/"+strings.Repeat("A", 5000)).Wants(t, http.StatusNotFound, "Key not found")
	got := s.Post("/explain", nil).Wants(t, http.StatusMethodNotAllowed)
	if allow := got.Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("got Allow %q, want GET, HEAD", allow)
	}
}

// A live refresh with an expired session redirects the whole page to the log-in, and from
// there back to the same address.
func TestExpiredSessionOnRefresh(t *testing.T) {
	s := sitetest.New(t)
	got := s.Refresh("/keys?q=ac&live=5").Wants(t, http.StatusUnauthorized)
	want := "/login?next=" + url.QueryEscape("/keys?q=ac&live=5")
	if to := got.Header.Get("HX-Redirect"); to != want {
		t.Fatalf("got HX-Redirect %q, want %q", to, want)
	}
	got = s.Post("/login", url.Values{
		"user": {sitetest.User}, "password": {sitetest.Password}, "next": {"/keys?q=ac&live=5"},
	}).Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/keys?q=ac&live=5" {
		t.Errorf("after the login: got redirect to %q, want the page", to)
	}
}

// failingStore is a session store that returns an error from FindCtx or CommitCtx.
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

// withFailing gives the site the store, in front of the real one.
func withFailing(f *failingStore) sitetest.Option {
	return sitetest.WithServices(func(services *server.Services) {
		f.Store, _ = services.Sessions.(*session.Store)
		services.Sessions = f
	})
}

// If the session store is unavailable, every page is an error page without the cause.
func TestSessionStoreDown(t *testing.T) {
	store := &failingStore{}
	s := sitetest.New(t, withFailing(store)).Login()
	store.find = errors.New("connection refused by 10.1.2.3")
	for _, path := range []string{"/keys", "/login", "/nothing", "//evil.example/"} {
		got := s.Get(path).Wants(t, http.StatusServiceUnavailable, "Valkey is unavailable")
		if strings.Contains(got.Body, "10.1.2.3") || strings.Contains(got.Body, ">acme<") {
			t.Errorf("%s: the page has the cause or a key: %s", path, got.Body)
		}
		for _, address := range sitetest.AddressesIn(got.Body) {
			if strings.HasPrefix(address, "//") {
				t.Errorf("%s: links to %s", path, address)
			}
		}
	}
}

// A log-in whose session cannot be saved gets one error page and no cookie.
func TestSessionNotSaved(t *testing.T) {
	s := sitetest.New(t, withFailing(&failingStore{commit: errors.New("read only")}))
	got := s.Post("/login", url.Values{"user": {sitetest.User}, "password": {sitetest.Password}}).Wants(t,
		http.StatusServiceUnavailable)
	if got.Header.Get("Location") != "" && got.StatusCode < 400 ||
		strings.Count(got.Body, "<!doctype html>") != 1 {
		t.Errorf("got %s, want one error page", got.Body)
	}
	if s.Cookie() != nil {
		t.Error("got a cookie for a session that does not exist")
	}
}

func TestHealth(t *testing.T) {
	var answer error
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Ready = func(context.Context) error { return answer }
	}))
	if got := s.Get("/healthz").Wants(t, http.StatusOK); got.Body != "alive\nstore ready\n" {
		t.Errorf("got %q, want a ready store", got.Body)
	}
	for text, err := range map[string]error{
		"store away\n":                    errors.New("dial tcp 10.1.2.3:6379: refused"),
		"store ready\npolicies missing\n": fmt.Errorf("%w in 3 of 256 parts", policy.ErrMissing),
	} {
		answer = err
		if got := s.Get("/healthz").Wants(t, http.StatusServiceUnavailable); got.Body != "alive\n"+text {
			t.Errorf("got %q, want %q and no cause", got.Body, text)
		}
	}
}

// While Valkey is unavailable, /healthz/live reports that the function runs.
func TestAlive(t *testing.T) {
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Ready = func(context.Context) error { return errors.New("unavailable") }
	}))
	if got := s.Get("/healthz/live").Wants(t, http.StatusOK); got.Body != "alive\n" {
		t.Errorf("got %q, want alive", got.Body)
	}
	if got := s.Get("/healthz").Wants(t, http.StatusServiceUnavailable); got.Header.Get("Retry-After") == "" {
		t.Error("/healthz: got no Retry-After")
	}
}

// The health check has a deadline for a store that hangs.
func TestHealthDeadline(t *testing.T) {
	hang := func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) { services.Ready = hang }))
	s.Get("/healthz").Wants(t, http.StatusServiceUnavailable)
}
