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

var securityHeaders = all(header("Content-Security-Policy", `.*default-src 'none'.*`),
	header("Strict-Transport-Security", `max-age=\d+.*`),
	header("X-Content-Type-Options", `nosniff`),
	header("Cache-Control", `no-store`))

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
