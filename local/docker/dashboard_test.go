package docker

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// dashboard is a logged-in client of the dashboard. It sends the cookie itself: the
// cookie is Secure, so a jar would not send it over plain HTTP.
type dashboard struct {
	t       *testing.T
	url     string
	cookies []*http.Cookie
}

func (c *composition) login(t *testing.T) *dashboard {
	t.Helper()
	d := &dashboard{t: t, url: c.url(t, "8082")}
	if a := d.post("/login", "user", "admin", "password", password); a.status != http.StatusSeeOther {
		t.Fatalf("log in: %s", a)
	}
	return d
}

func (d *dashboard) send(method, path string, form url.Values) answer {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, cookie := range d.cookies {
		r.AddCookie(cookie)
	}
	a, err := send(r)
	if err != nil {
		d.t.Fatal(err)
	}
	d.cookies = append(d.cookies, (&http.Response{Header: a.header}).Cookies()...)
	return a
}

// post sends a form of names and values in turn.
func (d *dashboard) post(path string, fields ...string) answer {
	d.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return d.send(http.MethodPost, path, form)
}

var (
	versionInPage = regexp.MustCompile(`name="version" value="(\d+)"`)
	secretInPage  = regexp.MustCompile(`id="secret"[^>]* value="(tg_[^"]+)"`)
)

// found returns the one group of a pattern in a page.
func (d *dashboard) found(pattern *regexp.Regexp, a answer) string {
	d.t.Helper()
	match := pattern.FindStringSubmatch(a.body)
	if match == nil {
		d.t.Fatalf("no %s in %s", pattern, a)
	}
	return match[1]
}

// key creates a key of a plan, and returns its secret.
func (d *dashboard) key(plan string) string {
	d.t.Helper()
	created := d.post("/keys", "name", "a caller of "+plan, "plan", plan, "env", "live")
	return d.found(secretInPage, d.send(http.MethodGet, created.header.Get("Location"), nil))
}

// override gives a key its own limit of requests per hour.
func (d *dashboard) override(id string, requests int) {
	d.t.Helper()
	path := "/keys/" + id + "/limits"
	version := d.found(versionInPage, d.send(http.MethodGet, path, nil))
	a := d.post(path, "limits", fmt.Sprint(requests, " per hour"), "reason", "a test",
		"action", "save", "version", version, "lasts", "never")
	if a.status != http.StatusSeeOther {
		d.t.Fatalf("save limits: %s", a)
	}
}
