package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

var dashboardRows = []row{
	{
		id:   "dash-redirect",
		what: "Redirects stay at this address",
		source: guide + "Lambda integrations for HTTP APIs; no source for base paths of custom " +
			"domains",
		how:      "`GET $DASHBOARD/`",
		expected: "303 to `/login` below the same base path",
		probe:    dashRoot,
		check:    redirects,
		advice: "ADMIN_URL of the admin function must be the address that browsers use, base path and " +
			"all. 403: your address is not in ADMIN_NETWORKS.",
	},
	{
		id:     "dash-login",
		what:   "The login page",
		source: unproven + " for ElastiCache's access strings (`internal/store/acl`)",
		how: "`GET $DASHBOARD/login`; then log in once with what the command of output `FirstLogin` " +
			"prints",
		expected: "200, HTML; the page of keys after the login",
		probe:    dashLogin,
		check:    all(status(http.StatusOK), header("Content-Type", `text/html(;.*)?`)),
		advice: "503: Valkey is not reached, or the user's access string refuses a command: read the " +
			"log of admin.",
	},
	{
		id:   "dash-cookie",
		what: "Cookies arrive whole",
		source: guide + "Lambda integrations for HTTP APIs, payload 2.0: cookies are a field of their " +
			"own",
		how:      "Set-Cookie of the same page",
		expected: "Secure, HttpOnly, SameSite=Lax",
		probe:    dashLogin,
		check:    on(http.StatusOK, cookie),
		advice: "A login would not last: report the header; see whether something before API Gateway " +
			"rewrites cookies.",
	},
	{
		id:       "dash-headers",
		what:     "Security headers are passed on",
		source:   guide + "Lambda integrations for HTTP APIs",
		how:      "the same page",
		expected: "Content-Security-Policy, Strict-Transport-Security, nosniff, no-store",
		probe:    dashLogin,
		check: on(http.StatusOK, all(header("Content-Security-Policy", `.*default-src 'none'.*`),
			header("Strict-Transport-Security", `max-age=\d+.*`),
			header("X-Content-Type-Options", `nosniff`),
			header("Cache-Control", `no-store`))),
		advice: "A proxy or CDN before the dashboard takes them away: set it to pass them on.",
	},
	{
		id:       "dash-static",
		what:     "Compressed files arrive as bytes",
		source:   guide + "Binary media types for HTTP APIs: isBase64Encoded",
		how:      "the page's style sheet, with `Accept-Encoding: gzip`",
		expected: "200, CSS, gzip that unpacks",
		probe:    dashStatic,
		check:    all(status(http.StatusOK), compressed),
		advice:   "Pages would have no styles: see whether a CDN strips Accept-Encoding or packs twice.",
	},
	{
		id:       "dash-health",
		what:     "The health check reaches Valkey",
		source:   unproven,
		how:      "`GET $DASHBOARD/healthz`",
		expected: "200, `store ready`",
		probe:    dashHealth,
		check:    all(status(http.StatusOK), bodyHas("store ready")),
		advice:   "503: read the log of admin. 403: your address is not in ADMIN_NETWORKS.",
	},
	{
		id:   "dash-401",
		what: "The API without a token",
		source: guide + "Lambda integrations for HTTP APIs; no source for WWW-Authenticate being " +
			"renamed",
		how:      "`GET $DASHBOARD/api/v1/me`",
		expected: "401, `WWW-Authenticate`, problem+json",
		probe:    dashAPI,
		check: all(status(http.StatusUnauthorized),
			header("WWW-Authenticate", `Bearer .+`),
			header("Content-Type", problemJSON),
			problemBody(http.StatusUnauthorized)),
		advice: "Renamed: machines must go by the status. 200: anybody gets in: take the dashboard " +
			"off the net.",
	},
	{
		id:       "dash-token",
		what:     "The Authorization header reaches the function",
		source:   guide + "Lambda integrations for HTTP APIs",
		how:      "with `-token`: `GET $DASHBOARD/api/v1/me`",
		expected: "200",
		probe:    dashToken,
		check:    status(http.StatusOK),
		advice: "401: the token is expired or of another deployment. 403: your address is not in " +
			"ADMIN_NETWORKS.",
	},
}

// redirects expects a redirect to the login page of the same dashboard, with its base
// path.
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
