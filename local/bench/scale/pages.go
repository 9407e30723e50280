//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"

	"tidegate/internal/apikey"
	"tidegate/local/bench"
	"tidegate/local/site"
	"tidegate/web/static"
)

// pages measures the dashboard: of each page the server's time, the commands to Valkey and
// the compressed bytes; what a browser loads first; and the function's cold start.
func pages(ctx context.Context, o options) ([]bench.Figure, error) {
	s, err := newSeed(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	b := &browser{}
	if b.handler, err = site.New(s.Store, s.Client, apikey.Pepper(bench.Pepper)); err != nil {
		return nil, err
	}
	got, _ := b.request(ctx, page{path: "/login",
		form: url.Values{"user": {site.User}, "password": {site.Password}}})
	for _, c := range got.Result().Cookies() {
		b.cookie = c.Name + "=" + c.Value
	}
	list, err := b.pages(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []bench.Figure
	heaviest, live := 0, 0
	for _, p := range list {
		figures, bytes, err := b.visit(ctx, s, o, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if all = append(all, figures...); p.live {
			live = max(live, bytes)
		} else {
			heaviest = max(heaviest, bytes)
		}
	}
	first := heaviest + b.assets(ctx)
	all = append(all, bench.Figure{Name: "admin.live_refresh_bytes", Value: float64(live), Unit: "bytes"},
		bench.Figure{Name: "admin.first_load_gzip_bytes", Value: float64(first), Unit: "bytes"})
	cold, err := coldStart(ctx, s, o)
	return append(all, cold...), err
}

// browser requests pages of a dashboard in this process, in a user's session.
type browser struct {
	handler http.Handler
	cookie  string
}

// page is a request of the browser: a GET, or a POST of a form.
type page struct {
	name, path string
	form       url.Values
	live       bool // a refresh of a part of the page
}

// request makes a request, and returns the answer and the server's time.
func (b *browser) request(ctx context.Context, p page) (*httptest.ResponseRecorder, time.Duration) {
	method := http.MethodGet
	if p.form != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(ctx, method, "https://dashboard.example"+p.path,
		strings.NewReader(p.form.Encode()))
	for name, value := range map[string]string{"Accept-Encoding": "gzip", "Sec-Fetch-Site": "same-origin",
		"Cookie": b.cookie, "Content-Type": "application/x-www-form-urlencoded"} {
		r.Header.Set(name, value)
	}
	if p.live {
		r.Header.Set("Hx-Request", "true")
	}
	w, began := httptest.NewRecorder(), time.Now()
	b.handler.ServeHTTP(w, r)
	return w, time.Since(began)
}

// visit requests a page several times. It returns the page's figures, and its bytes.
func (b *browser) visit(ctx context.Context, s *seed, o options, p page) ([]bench.Figure, int, error) {
	b.request(ctx, p) // fills caches, and is not counted
	var times []time.Duration
	bytes := 0
	work, err := bench.During(ctx, s.Nodes, func() error {
		for range o.rounds {
			got, took := b.request(ctx, p)
			if got.Code != http.StatusOK {
				return fmt.Errorf("status %d", got.Code)
			}
			times, bytes = append(times, took), got.Body.Len()
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	name := "admin." + p.name
	return []bench.Figure{
		{Name: name + ".server_ms", Value: bench.Millis(bench.Median(times)), Unit: "ms"},
		{Name: name + ".commands", Value: float64(work[0].Commands-1) / float64(o.rounds), Unit: "commands"},
		{Name: name + ".gzip_bytes", Value: float64(bytes), Unit: "bytes"},
	}, bytes, nil
}

// assets returns the compressed bytes of style, scripts and icon.
func (b *browser) assets(ctx context.Context) (sum int) {
	files := static.Load()
	for _, file := range []string{files.Style, files.Script, files.Chart, files.Icon} {
		got, _ := b.request(ctx, page{path: "/static/" + file})
		sum += got.Body.Len()
	}
	return sum
}

// pages lists every page, in the states that take the most work.
func (b *browser) pages(ctx context.Context, s *seed) ([]page, error) {
	key, overridden := "/keys/"+s.calls[s.active(1)].Subject, s.calls[0].Subject
	record, err := s.Get(ctx, s.calls[s.active(1)].Subject)
	if err != nil {
		return nil, err
	}
	set, err := s.Set(ctx)
	if err != nil {
		return nil, err
	}
	edit := func(version int64, more url.Values) url.Values {
		form := url.Values{"limits": {"5 per 10 seconds"}, "lasts": {"never"},
			"reason": {"bench"}, "action": {"preview"}, "version": {strconv.FormatInt(version, 10)}}
		for name, value := range more {
			form[name] = value
		}
		return form
	}
	all := []page{
		{name: "find", path: "/search", live: true, form: url.Values{"on": {"find"}, "q": {"customer-05"}}},
		{name: "find_part", path: "/search", live: true,
			form: url.Values{"on": {"find"}, "q": {"no-such-name"}}},
		{name: "limits_preview", path: key + "/limits", form: edit(record.Version, nil)},
		{name: "plan_preview", path: "/policies/plans/2/edit",
			form: edit(set.Version, url.Values{"name": {set.Plans[1].Name}, "degraded": {"open"}})},
		{name: "overview_refresh", path: "/?live=2", live: true},
		{name: "keys_refresh", path: "/keys?live=2", live: true},
		{name: "key_refresh", path: key + "?live=2", live: true},
	}
	for _, list := range []string{"keys", "audit"} {
		next, err := b.nextPage(ctx, "/"+list)
		if err != nil {
			return nil, err
		}
		all = append(all, page{name: list + "_next", path: next})
	}
	for line := range strings.Lines(paths) {
		if name, path, found := strings.Cut(strings.TrimSpace(line), " "); found {
			path = strings.NewReplacer("KEY", key, "OVERRIDDEN", overridden).Replace(path)
			all = append(all, page{name: name, path: path})
		}
	}
	return all, nil
}

// paths has the pages that need only a GET. KEY is a busy key, OVERRIDDEN the id of one
// with an override.
const paths = `
	healthz /healthz
	overview /
	overview_24h /?range=24h
	overview_7d /?range=7d
	keys /keys
	keys_search /keys?q=customer-05
	keys_part /keys?q=no-such-name
	keys_plan /keys?plan=2
	keys_overridden /keys?state=overridden
	keys_blocked /keys?state=blocked
	keys_banned /keys?state=banned
	keys_busiest /keys?order=busiest
	keys_today /keys?order=today
	keys_near /keys?state=near
	keys_revoked /keys?state=revoked
	keys_expiring /keys?state=expiring
	keys_tag /keys?tag=team-07
	key KEY
	key_overridden /keys/OVERRIDDEN
	limits /keys/OVERRIDDEN/limits
	bulk /keys/bulk?do=override&of=all&filter=plan%3D2
	policies /policies
	plan /policies/plans/2
	plan_edit /policies/plans/2/edit
	callers /callers
	denials /denials
	audit /audit
	audit_subject /audit?subject=OVERRIDDEN
	audit_by /audit?by=editor-3
	audit_rare /audit?what=key.override
	audit_dates /audit?from=2020-01-01T00:00&to=2100-01-01T00:00
	explain /explain?key=OVERRIDDEN&path=/orders/7
	settings /settings
`

var nextLink = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// nextPage returns the path of the page that follows the first page of a list.
func (b *browser) nextPage(ctx context.Context, path string) (string, error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://dashboard.example"+path, http.NoBody)
	r.Header.Set("Cookie", b.cookie)
	got := httptest.NewRecorder()
	b.handler.ServeHTTP(got, r) // not compressed
	found := nextLink.FindStringSubmatch(got.Body.String())
	if found == nil {
		return "", fmt.Errorf("%s has no next page: %.200s", path, got.Body)
	}
	return html.UnescapeString(found[1]), nil
}

// loginPage is the event of an HTTP API for the log-in page.
const loginPage = `{"version": "2.0", "routeKey": "$default", "rawPath": "/login",
	"headers": {"host": "dashboard.example"}, "requestContext": {"stage": "$default",
	"domainName": "dashboard.example",
	"http": {"method": "GET", "path": "/login", "sourceIp": "192.0.2.1"}}}`

// coldStart measures the built function's start to its first page.
func coldStart(ctx context.Context, s *seed, o options) ([]bench.Figure, error) {
	hash, err := argon2id.CreateHash("a password", argon2id.DefaultParams)
	if err != nil || o.admin == "" {
		return nil, errors.Join(err, errors.New("-admin: the built function is missing"))
	}
	f := bench.Function{Name: "admin", Binary: o.admin, Allowed: []byte(`"statusCode":200`),
		Env: map[string]string{"VALKEY_URL": s.URL, "KEY_PEPPER": bench.Pepper, "ADMIN_USER": "bench",
			"ADMIN_PASSWORD_HASH": hash, "CHANGES_LOG": s.Data}}
	var times []time.Duration
	for range o.starts {
		took, err := bench.ColdStart(ctx, f, []byte(loginPage))
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	median := bench.Millis(bench.Median(times))
	return []bench.Figure{{Name: "admin.coldstart_ms", Value: median, Unit: "ms"}}, nil
}
