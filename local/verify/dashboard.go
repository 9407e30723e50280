package verify

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Bounds of the override.
const (
	overrideLife = 5 * time.Minute // after which it expires, if verify is killed
	cleanUpLimit = 30 * time.Second
)

// editLimits raises the key's limit by one with an override and calls. Then it removes
// the override and calls again.
func (s *session) editLimits(ctx context.Context) {
	if s.keyID == "" {
		s.row("edit-acts", skip("the backend does not return the key's id, as the example's backend does"))
		return
	}
	if !s.usable("edit-acts", s.rest) {
		return
	}
	key := s.api(ctx, call{url: "/keys/" + s.keyID})
	switch {
	case key.err != nil || key.status != http.StatusOK:
		s.row("edit-acts", skip(fmt.Sprintf("the API answered %d for the key", key.status)))
		return
	case strings.Contains(key.body, `"override"`):
		s.row("edit-acts", skip("the key has an override, which verify would replace"))
		return
	}
	s.makeRoom(ctx, 2)
	s.rowOfLimit(ctx, "edit-acts", s.override(ctx, key.header.Get("ETag")),
		quota{s.quota.requests + 1, s.quota.window})
	s.rowOfLimit(ctx, "edit-ends", s.endOverride(ctx), s.quota)
}

// rowOfLimit calls after an edit, and expects the limit.
func (s *session) rowOfLimit(ctx context.Context, id string, edit error, want quota) {
	if edit != nil {
		s.row(id, differ(edit.Error()))
		return
	}
	a := s.withKey(ctx, s.rest)
	if a.err != nil {
		s.row(id, a.is(http.StatusOK))
		return
	}
	got, found := parseQuota(a.policy())
	s.row(id, judged(found && got == want, a.policy()))
}

func (s *session) override(ctx context.Context, etag string) error {
	body, err := json.Marshal(map[string]any{
		"limits": []map[string]any{{"requests": s.quota.requests + 1, "window": s.quota.window.String()}},
		"until":  time.Now().Add(overrideLife).UTC().Format(time.RFC3339),
		"reason": "verify",
	})
	if err != nil {
		return err
	}
	saved := s.api(ctx, call{method: http.MethodPut, url: "/keys/" + s.keyID + "/override",
		body:   string(body),
		header: map[string]string{"If-Match": etag, "Content-Type": "application/json"}})
	return saved.refused("set the override")
}

// endOverride removes the override, even if verify is interrupted.
func (s *session) endOverride(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	ended := s.api(ctx, call{method: http.MethodDelete, url: "/keys/" + s.keyID + "/override?reason=verify",
		header: map[string]string{"If-Match": "*"}})
	if ended.status == http.StatusNotFound {
		return nil // it was not set
	}
	return ended.refused("remove the override")
}

// refused returns an error if the answer is not 200. what is the action that failed.
func (a answer) refused(what string) error {
	if a.err == nil && a.status != http.StatusOK {
		return fmt.Errorf("%s: the API answered %d", what, a.status)
	}
	return a.err
}

// api calls the JSON API with the token.
func (s *session) api(ctx context.Context, c call) answer {
	if c.header == nil {
		c.header = map[string]string{}
	}
	c.header["Authorization"] = "Bearer " + s.token
	c.url = s.dashboard + "/api/v1" + c.url
	return s.do(ctx, c)
}

func (s *session) callDashboard(ctx context.Context) {
	s.row("dash-redirect", redirects(s.get(ctx, s.dashboard+"/"), s.dashboard))
	login := s.get(ctx, s.dashboard+"/login") // sets a cookie and needs no session
	if s.row("dash-login", all(login.is(http.StatusOK), login.has("Content-Type", `text/html(;.*)?`))) {
		s.row("dash-cookie", login.hasCookie())
		s.row("dash-static", s.styleSheet(ctx, login))
	}
	health := s.get(ctx, s.dashboard+"/healthz")
	s.row("dash-health", all(health.is(http.StatusOK),
		judged(strings.Contains(health.body, "store ready"), strings.TrimSpace(excerpt(health.body)))))
	api := s.get(ctx, s.dashboard+"/api/v1/me")
	s.row("dash-401", all(api.is(http.StatusUnauthorized), api.has("WWW-Authenticate", bearer),
		api.has("Content-Type", problemJSON), api.hasProblem(false)))
	if s.token == "" {
		s.row("dash-token", skip("-token is not set"))
		return
	}
	s.row("dash-token", s.api(ctx, call{url: "/me"}).is(http.StatusOK))
}

// redirects expects a redirect to the login page below the dashboard's base path.
func redirects(a answer, dashboard string) outcome {
	location := a.header.Get("Location")
	target, _, _ := strings.Cut(location, "?")
	here, err := url.Parse(dashboard)
	good := err == nil && (target == here.Path+"/login" || target == dashboard+"/login")
	return all(a.is(http.StatusSeeOther), judged(good, location))
}

func (a answer) hasCookie() outcome {
	response := http.Response{Header: a.header}
	cookies := response.Cookies()
	if len(cookies) == 0 {
		return differ("no cookie")
	}
	for _, c := range cookies {
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			return differ(fmt.Sprintf("%s: Secure %t, HttpOnly %t, SameSite=Lax %t",
				c.Name, c.Secure, c.HttpOnly, c.SameSite == http.SameSiteLaxMode))
		}
	}
	return pass(cookies[0].Name)
}

var styleLink = regexp.MustCompile(`<link[^>]*href="([^"]+\.css)"`)

// styleSheet requests the first style sheet of a page compressed, as a browser does.
func (s *session) styleSheet(ctx context.Context, page answer) outcome {
	link := styleLink.FindStringSubmatch(page.body)
	here, err := url.Parse(s.dashboard + "/login")
	if link == nil || err != nil {
		return differ("the login page names no style sheet")
	}
	target, err := here.Parse(link[1])
	if err != nil {
		return differ(err.Error())
	}
	a := s.do(ctx, call{url: target.String(), header: map[string]string{"Accept-Encoding": "gzip"}})
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	encoding := a.header.Get("Content-Encoding")
	seen := fmt.Sprintf("%s, Content-Encoding %q, %d bytes", kind, encoding, len(a.body))
	r, err := gzip.NewReader(bytes.NewReader([]byte(a.body)))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(r, maxAnswer))
	}
	if err != nil {
		seen += ": " + err.Error()
	}
	return all(a.is(http.StatusOK), judged(kind == "text/css" && encoding == "gzip" && err == nil, seen))
}
