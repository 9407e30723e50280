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

var (
	dashRoot = dashProbe("GET DASHBOARD/", call{url: "/"})
	// The login page sets a cookie and needs no session.
	dashLogin  = dashProbe("GET DASHBOARD/login", call{url: "/login"})
	dashHealth = dashProbe("GET DASHBOARD/healthz", call{url: "/healthz"})
	dashAPI    = dashProbe("GET DASHBOARD/api/v1/me without a token", call{url: "/api/v1/me"})

	dashStatic = &probe{
		what:  "GET DASHBOARD/login and the first style sheet that it names, compressed",
		needs: needDashboard, calls: 2,
		run: styleSheet,
	}
	dashToken = &probe{
		what: "GET DASHBOARD/api/v1/me with the token", needs: needDashboard | needToken, calls: 1,
		run: func(ctx context.Context, s *session) evidence {
			return evidence{answers: []answer{s.api(ctx, call{url: "/me"})}}
		},
	}
	edits = &probe{
		what:  "set and remove an override of the key by the API, and GET REST/verify after each",
		needs: needREST | needDashboard | needToken, calls: 6,
		run: editLimits,
	}
	restFlood = &probe{
		what:  "GET REST/verify without a credential, 100 at a time",
		needs: needREST | needThrottle, calls: restFloodCalls,
		run: func(ctx context.Context, s *session) evidence {
			return s.flood(ctx, restFloodCalls, s.rest+s.path)
		},
	}
	dashFlood = &probe{
		what:  "GET DASHBOARD/login, 100 at a time, then DASHBOARD/healthz",
		needs: needDashboard | needThrottle, calls: dashFloodCalls + 1,
		run: func(ctx context.Context, s *session) evidence {
			e := s.flood(ctx, dashFloodCalls, s.dashboard+"/login")
			e.answers = append(e.answers, s.get(ctx, s.dashboard+"/healthz"))
			return e
		},
	}
)

func dashProbe(what string, c call) *probe {
	return &probe{what: what, needs: needDashboard, calls: 1,
		run: func(ctx context.Context, s *session) evidence {
			return evidence{answers: []answer{s.get(ctx, s.dashboard+c.url)}}
		}}
}

var styleLink = regexp.MustCompile(`<link[^>]*href="([^"]+\.css)"`)

// styleSheet requests the first style sheet of the login page, as a browser does.
func styleSheet(ctx context.Context, s *session) evidence {
	page := s.get(ctx, s.dashboard+"/login")
	link := styleLink.FindStringSubmatch(page.body)
	if link == nil {
		return evidence{reason: "the login page names no style sheet: see the row on the login page"}
	}
	target := link[1]
	if strings.HasPrefix(target, "/") {
		scheme, rest, _ := strings.Cut(s.dashboard, "://")
		host, _, _ := strings.Cut(rest, "/")
		target = scheme + "://" + host + target
	}
	packed := s.do(ctx, call{url: target, header: map[string]string{"Accept-Encoding": "gzip"}})
	return evidence{answers: []answer{packed}}
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

// Bounds of the override.
const (
	overrideLife = 5 * time.Minute // after which it expires, if verify is killed
	cleanUpLimit = 30 * time.Second
)

// editLimits raises the key's limit by one with an override and calls. Then it removes
// the override and calls again. The evidence is these two answers.
func editLimits(ctx context.Context, s *session) evidence {
	if s.keyID == "" {
		return evidence{reason: "the backend does not return the key's id, as the example's backend does"}
	}
	if reason := s.unusable(s.rest); reason != "" {
		return evidence{reason: reason}
	}
	key := s.api(ctx, call{url: "/keys/" + s.keyID})
	if key.err != nil || key.status != http.StatusOK {
		return evidence{reason: fmt.Sprintf("the API answered %d for the key", key.status)}
	}
	if strings.Contains(key.body, `"override"`) {
		return evidence{reason: "the key has an override, which verify would replace"}
	}
	s.makeRoom(ctx, 2)
	during := answer{err: s.override(ctx, key.header.Get("ETag"))}
	if during.err == nil {
		during = s.withKey(ctx, s.rest)
	}
	after := answer{err: s.endOverride(ctx)}
	if after.err == nil {
		after = s.withKey(ctx, s.rest)
	}
	return evidence{answers: []answer{during, after}}
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

var securityHeaders = all(header("Content-Security-Policy", `.*default-src 'none'.*`),
	header("Strict-Transport-Security", `max-age=\d+.*`),
	header("X-Content-Type-Options", `nosniff`),
	header("Cache-Control", `no-store`))

// redirects expects a redirect to the login page below the dashboard's base path.
func redirects(e evidence) outcome {
	a := e.last()
	location := a.header.Get("Location")
	target, _, _ := strings.Cut(location, "?")
	here, err := url.Parse(e.dashboard)
	good := err == nil && (target == here.Path+"/login" || target == e.dashboard+"/login")
	return judged(good && a.status == http.StatusSeeOther, fmt.Sprintf("%d %s", a.status, location))
}

func cookie(e evidence) outcome {
	response := http.Response{Header: e.last().header}
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

func compressed(e evidence) outcome {
	a := e.last()
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	encoding := a.header.Get("Content-Encoding")
	seen := fmt.Sprintf("%s, Content-Encoding %q, %d bytes", kind, encoding, len(a.body))
	if kind != "text/css" || encoding != "gzip" {
		return differ(seen)
	}
	r, err := gzip.NewReader(bytes.NewReader([]byte(a.body)))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(r, maxAnswer))
	}
	if err != nil {
		return differ(seen + ": " + err.Error())
	}
	return pass(seen)
}

func bodyHas(want string) check {
	return func(e evidence) outcome {
		return judged(strings.Contains(e.last().body, want), strings.TrimSpace(excerpt(e.last().body)))
	}
}
