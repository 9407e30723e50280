//go:build unix

package pages

import (
	"cmp"
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

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
	"tidegate/local/site"
	"tidegate/web/static"
)

// browser requests pages of a dashboard in this process, in a user's session.
type browser struct {
	handler http.Handler
	client  valkey.Client
	cookie  string
}

// newBrowser starts a dashboard as functions/admin does, and logs in.
func newBrowser(ctx context.Context, client valkey.Client) (*browser, error) {
	handler, err := site.New(client, apikey.Pepper(harness.Pepper))
	if err != nil {
		return nil, err
	}
	b := &browser{handler: handler, client: client}
	got, _, err := b.request(ctx, page{method: http.MethodPost, path: "/login",
		form: url.Values{"user": {site.User}, "password": {site.Password}}})
	if err != nil {
		return nil, err
	}
	for _, c := range got.Result().Cookies() {
		b.cookie = c.Name + "=" + c.Value
	}
	if got.Code != http.StatusSeeOther || b.cookie == "" {
		return nil, fmt.Errorf("login: status %d", got.Code)
	}
	return b, nil
}

// page is a request of the browser.
type page struct {
	name, path string
	method     string // "" for GET
	live       bool   // a live refresh of a part of the page
	plain      bool   // without compression
	form       url.Values
}

// request makes a request, and returns the answer and the server's time.
func (b *browser) request(ctx context.Context, p page) (*httptest.ResponseRecorder, time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, cmp.Or(p.method, http.MethodGet),
		"https://dashboard.example"+p.path, strings.NewReader(p.form.Encode()))
	if err != nil {
		return nil, 0, err
	}
	if !p.plain {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Cookie", b.cookie)
	r.RemoteAddr = "192.0.2.1:1234"
	if p.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.live {
		r.Header.Set("Hx-Request", "true")
	}
	w, began := httptest.NewRecorder(), time.Now()
	b.handler.ServeHTTP(w, r)
	return w, time.Since(began), nil
}

// measure visits every page, and adds up the bytes that a browser loads.
func (b *browser) measure(ctx context.Context, s *seed) ([]figures.Figure, error) {
	pages, err := b.pages(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []figures.Figure
	heaviest, live := 0, 0
	for _, p := range pages {
		measured, bytes, err := b.visit(ctx, p, s.rounds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, measured...)
		if p.live {
			live = max(live, bytes)
		} else {
			heaviest = max(heaviest, bytes)
		}
	}
	first, err := b.firstLoad(ctx, heaviest)
	return append(append(all, first...), figures.Of("admin.live_refresh_bytes", float64(live), "bytes")), err
}

// visit requests a page several times. It returns the page's figures, and its bytes.
func (b *browser) visit(ctx context.Context, p page, rounds int) ([]figures.Figure, int, error) {
	if _, _, err := b.load(ctx, p); err != nil { // fills caches, and is not counted
		return nil, 0, err
	}
	var times []time.Duration
	bytes := 0
	work, err := figures.During(ctx, []valkey.Client{b.client}, func() error {
		for range rounds {
			got, took, err := b.load(ctx, p)
			if err != nil {
				return err
			}
			times, bytes = append(times, took), got.Body.Len()
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	n, name := float64(rounds), "admin."+p.name
	return []figures.Figure{
		figures.InMillis(name+".server_ms", figures.Median(times)),
		figures.InMillis(name+".p95_ms", figures.Quantile(times, 0.95)),
		figures.Of(name+".commands", float64(work[0].Commands-1)/n, "commands"),
		figures.Of(name+".reads", float64(work[0].Reads-1)/n, "reads"),
		figures.Of(name+".gzip_bytes", float64(bytes), "bytes"),
	}, bytes, nil
}

// load makes a request whose answer must be a page.
func (b *browser) load(ctx context.Context, p page) (*httptest.ResponseRecorder, time.Duration, error) {
	got, took, err := b.request(ctx, p)
	if err == nil && got.Code != http.StatusOK {
		err = fmt.Errorf("status %d", got.Code)
	}
	return got, took, err
}

// firstLoad returns the bytes that a browser with an empty cache loads: the heaviest
// page, the stylesheet, the scripts and the icon, compressed.
func (b *browser) firstLoad(ctx context.Context, heaviest int) ([]figures.Figure, error) {
	sum := heaviest
	all := []figures.Figure{figures.Of("admin.heaviest_html_gzip_bytes", float64(heaviest), "bytes")}
	files := static.Load()
	for name, file := range map[string]string{"css": files.Style, "js": files.Script,
		"chart_js": files.Chart, "icon": files.Icon} {
		got, _, err := b.request(ctx, page{path: "/static/" + file})
		if err != nil {
			return nil, err
		}
		if got.Header().Get("Content-Encoding") != "gzip" ||
			!strings.HasPrefix(got.Body.String(), "\x1f\x8b") {
			return nil, errors.New(file + " is not compressed")
		}
		sum += got.Body.Len()
		all = append(all, figures.Of("admin."+name+"_gzip_bytes", float64(got.Body.Len()), "bytes"))
	}
	return append(all, figures.Of("admin.first_load_gzip_bytes", float64(sum), "bytes")), nil
}

// pages lists every page, in the states that take the most work.
func (b *browser) pages(ctx context.Context, s *seed) ([]page, error) {
	busy := s.ids[s.activeKey(1)]
	k, err := s.Get(ctx, busy)
	if err != nil {
		return nil, err
	}
	set, err := s.Set(ctx)
	if err != nil {
		return nil, err
	}
	limits := url.Values{
		"limits[0]": {"5 per 10 seconds"}, "mode": {"enforce"}, "lasts": {"never"},
		"reason": {"bench"}, "action": {"preview"},
	}
	plan := url.Values{"name": {set.Plans[1].Name}, "degraded": {"open"}}
	for name, v := range limits {
		plan[name] = v
	}
	limits.Set("version", strconv.FormatInt(k.Version, 10))
	plan.Set("version", strconv.FormatInt(set.Version, 10))
	pages := append([]page{
		{name: "find", path: "/search", method: http.MethodPost, live: true,
			form: url.Values{"on": {"find"}, "q": {"customer-05"}}},
		{name: "find_part", path: "/search", method: http.MethodPost, live: true,
			form: url.Values{"on": {"find"}, "q": {"no-such-name"}}},
		{name: "limits_preview", path: "/keys/" + busy + "/limits", method: http.MethodPost, form: limits},
		{name: "plan_preview", path: "/policies/plans/2/edit", method: http.MethodPost, form: plan},
	}, fixedPages("/keys/"+busy, s.ids[0])...)
	for _, list := range []string{"keys", "audit"} {
		next, err := b.nextPage(ctx, "/"+list)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page{name: list + "_next", path: next})
	}
	return pages, nil
}

// fixedPages lists the pages that need only a GET, for the path of a busy key and the id
// of an overridden key.
func fixedPages(busy, overridden string) []page {
	return []page{
		{name: "healthz", path: "/healthz"},
		{name: "overview", path: "/"},
		{name: "overview_24h", path: "/?range=24h"},
		{name: "overview_7d", path: "/?range=7d"},
		{name: "overview_refresh", path: "/?live=2", live: true},
		{name: "keys", path: "/keys"},
		{name: "keys_refresh", path: "/keys?live=2", live: true},
		{name: "keys_search", path: "/keys?q=customer-05"},
		{name: "keys_part", path: "/keys?q=no-such-name"},
		{name: "keys_plan", path: "/keys?plan=2"},
		{name: "keys_overridden", path: "/keys?state=overridden"},
		{name: "keys_blocked", path: "/keys?state=blocked"},
		{name: "keys_banned", path: "/keys?state=banned"},
		{name: "keys_busiest", path: "/keys?order=busiest"},
		{name: "keys_closest", path: "/keys?order=closest"},
		{name: "keys_would_block", path: "/keys?order=would-block"},
		{name: "keys_used", path: "/keys?order=used"},
		{name: "keys_near", path: "/keys?state=near"},
		{name: "keys_revoked", path: "/keys?state=revoked"},
		{name: "keys_expiring", path: "/keys?state=expiring"},
		{name: "keys_tag", path: "/keys?tag=team-07"},
		{name: "keys_shadow", path: "/keys?state=shadow"},
		{name: "key", path: busy},
		{name: "key_refresh", path: busy + "?live=2", live: true},
		{name: "key_overridden", path: "/keys/" + overridden},
		{name: "limits", path: "/keys/" + overridden + "/limits"},
		{name: "bulk", path: "/keys/bulk?do=override&of=all&plan=2"},
		{name: "policies", path: "/policies"},
		{name: "plan", path: "/policies/plans/2"},
		{name: "plan_edit", path: "/policies/plans/2/edit"},
		{name: "callers", path: "/callers"},
		{name: "denials", path: "/denials"},
		{name: "audit", path: "/audit"},
		{name: "audit_subject", path: "/audit?subject=" + overridden},
		{name: "audit_by", path: "/audit?by=editor-3"},
		{name: "audit_rare", path: "/audit?what=key.override"},
		{name: "audit_dates", path: "/audit?from=2020-01-01T00:00&to=2100-01-01T00:00"},
		{name: "explain", path: "/explain?key=" + overridden + "&path=/orders/7"},
		{name: "simulate", path: "/simulate"},
		{name: "settings", path: "/settings"},
	}
}

var nextLink = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// nextPage returns the path of the page that follows the first page of a list.
func (b *browser) nextPage(ctx context.Context, path string) (string, error) {
	got, _, err := b.request(ctx, page{path: path, plain: true})
	if err != nil {
		return "", err
	}
	found := nextLink.FindStringSubmatch(got.Body.String())
	if found == nil {
		return "", fmt.Errorf("%s has no next page: %.200s", path, got.Body)
	}
	return html.UnescapeString(found[1]), nil
}
