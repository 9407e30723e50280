//go:build unix

package admin

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
)

// pages lists every page, in the states that make it work most.
func (b *browser) pages(ctx context.Context, s *seed) ([]page, error) {
	busy, overridden := "/keys/"+id(s.activeKey(1)), "/keys/"+id(0)
	k, err := s.keys.Get(ctx, id(s.activeKey(1)))
	if err != nil {
		return nil, err
	}
	set, err := s.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	limits := url.Values{
		"limits[0].requests": {"5"}, "limits[0].window": {"10"}, "limits[0].unit": {"second"},
		"limits[0].algorithm": {"log"}, "mode": {"enforce"}, "lasts": {"never"},
		"reason": {"bench"}, "action": {"preview"},
	}
	plan := url.Values{"name": {set.Plans[1].Name}, "degraded": {"open"}}
	for name, v := range limits {
		plan[name] = v
	}
	limits.Set("version", strconv.FormatInt(k.Version, 10))
	plan.Set("version", strconv.FormatInt(set.Version, 10))
	pages := []page{
		{name: "limits_preview", path: busy + "/limits", method: http.MethodPost, form: limits},
		{name: "plan_preview", path: "/policies/plans/2", method: http.MethodPost, form: plan},
	}
	return b.withNext(ctx, append(pages, fixedPages(busy, overridden)...), "keys", "audit")
}

// fixedPages lists the pages that are only fetched, for a busy key and an overridden one.
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
		{name: "keys_plan", path: "/keys?plan=2"},
		{name: "keys_overridden", path: "/keys?state=overridden"},
		{name: "keys_blocked", path: "/keys?state=blocked"},
		{name: "keys_banned", path: "/keys?state=banned"},
		{name: "keys_busiest", path: "/keys?order=busiest"},
		{name: "keys_used", path: "/keys?order=used"},
		{name: "keys_near", path: "/keys?state=near"},
		{name: "keys_revoked", path: "/keys?state=revoked"},
		{name: "keys_expiring", path: "/keys?state=expiring"},
		{name: "keys_tag", path: "/keys?tag=team-07"},
		{name: "keys_shadow", path: "/keys?state=shadow"},
		{name: "key", path: busy},
		{name: "key_refresh", path: busy + "?live=2", live: true},
		{name: "key_overridden", path: overridden},
		{name: "limits", path: overridden + "/limits"},
		{name: "bulk", path: "/keys/bulk?do=override&of=all&plan=2"},
		{name: "policies", path: "/policies"},
		{name: "plan", path: "/policies/plans/2"},
		{name: "overrides", path: "/overrides"},
		{name: "callers", path: "/callers"},
		{name: "denials", path: "/denials"},
		{name: "audit", path: "/audit"},
		{name: "audit_subject", path: "/audit?subject=" + id(0)},
		{name: "audit_by", path: "/audit?by=editor-3"},
		{name: "audit_rare", path: "/audit?what=key.override"},
		{name: "audit_dates", path: "/audit?from=2020-01-01T00:00&to=2100-01-01T00:00"},
		{name: "explain", path: "/explain?key=" + id(0) + "&path=/orders/7"},
		{name: "simulate", path: "/simulate"},
		{name: "settings", path: "/settings"},
	}
}

// withNext adds the second page of each list.
func (b *browser) withNext(ctx context.Context, pages []page, lists ...string) ([]page, error) {
	for _, name := range lists {
		next, err := b.nextOf(ctx, "/"+name)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page{name: name + "_next", path: next})
	}
	return pages, nil
}

var nextLink = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// nextOf finds the page that follows a page.
func (b *browser) nextOf(ctx context.Context, path string) (string, error) {
	got, _, err := b.ask(ctx, page{path: path})
	if err != nil {
		return "", err
	}
	var body io.Reader = got.Body
	if got.Header().Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(got.Body); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	found := nextLink.FindSubmatch(text)
	if found == nil {
		return "", errors.New(path + " has no next page: " + fmt.Sprintf("%.200s", text))
	}
	return html.UnescapeString(string(found[1])), nil
}
