package sitetest

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"tidegate/web/static"
)

// Reply is a response, with names in place of keys' ids.
type Reply struct {
	*http.Response
	Body string
}

// Do makes a request. The name of a key in braces stands for its id, in the path,
// the form and the reply.
func (s *Site) Do(method, path string, form url.Values, header http.Header) Reply {
	s.T.Helper()
	if form != nil && header.Get("Content-Type") == "" {
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	named := url.Values{}
	for name, values := range form {
		for _, value := range values {
			named.Add(name, s.Keys.Named(value))
		}
	}
	return s.DoText(method, path, named.Encode(), header)
}

// DoText makes a request with a body of any kind.
func (s *Site) DoText(method, path, body string, header http.Header) Reply {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, s.Base+s.Keys.Named(path),
		strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := s.Client.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	if to := res.Header.Get("Location"); to != "" {
		res.Header.Set("Location", s.Keys.naming(to))
	}
	return Reply{res, s.Keys.naming(string(text))}
}

// Get requests a page.
func (s *Site) Get(path string) Reply { s.T.Helper(); return s.Do(http.MethodGet, path, nil, nil) }

// Refresh requests a page as the live refresh does.
func (s *Site) Refresh(path string) Reply {
	s.T.Helper()
	return s.Do(http.MethodGet, path, nil, http.Header{"Hx-Request": {"true"}})
}

// Post sends a form as a browser does from a page of this site.
func (s *Site) Post(path string, form url.Values) Reply {
	s.T.Helper()
	return s.Do(http.MethodPost, path, form, http.Header{
		"Sec-Fetch-Site": {"same-origin"}, "Origin": {s.Server.URL},
	})
}

// PostThrough posts a form and follows the redirect.
func (s *Site) PostThrough(path string, form url.Values) Reply {
	s.T.Helper()
	return s.Get(s.Post(path, form).Wants(s.T, http.StatusSeeOther).Header.Get("Location"))
}

// PostAnyway posts a form and confirms a warning.
func (s *Site) PostAnyway(path string, form url.Values) Reply {
	s.T.Helper()
	answer := s.Post(path, form)
	if accepted := HiddenIn(answer.Body).Get("accepted"); accepted != "" {
		return s.Post(path, With(form, "accepted", accepted))
	}
	return answer
}

// Wants stops the test if the status differs, and reports texts that are missing.
func (r Reply) Wants(t *testing.T, status int, texts ...string) Reply {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%s %s: got status %d, want %d\n%s", r.Request.Method, r.Request.URL, r.StatusCode,
			status, r.Body)
	}
	for _, text := range texts {
		if !strings.Contains(r.Body, text) {
			t.Errorf("%s %s: want %q in\n%s", r.Request.Method, r.Request.URL, text, r.Body)
		}
	}
	return r
}

// Fit returns a path that matches a route's pattern.
func Fit(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method,
		strings.NewReplacer("{$}", "", "{id}", "{acme}", "{file}", static.Load().Icon,
			"{number}", "1", "{entry}",
			"1-0-1").Replace(path)
}

// Ask makes a request that matches a route's pattern, as a page of this site would.
func (s *Site) Ask(pattern string) Reply {
	s.T.Helper()
	method, path := Fit(pattern)
	return SendAs(s, method, path, nil)
}

// SendAs makes a request as a page of this site would.
func SendAs(s *Site, method, path string, header http.Header) Reply {
	s.T.Helper()
	if header == nil {
		header = http.Header{}
	}
	if method != http.MethodGet && method != http.MethodHead {
		if strings.HasPrefix(path, "/api/") {
			path += "?unknown=1" // the API checks the role, then refuses the parameter
		}
		header["Sec-Fetch-Site"] = []string{"same-origin"}
		header["Content-Type"] = []string{"application/x-www-form-urlencoded"}
	}
	return s.Do(method, path, nil, header)
}

// WantsLogin reports a page that does not redirect to the log-in.
func (s *Site) WantsLogin(path string) {
	s.T.Helper()
	if got := s.Get(path); got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(
		got.Header.Get("Location"), s.Config.BasePath+"/login",
	) {
		s.T.Errorf("%s: got %d to %q, want the login", path, got.StatusCode, got.Header.Get("Location"))
	}
}

// NonceIn returns the nonce of a Content-Security-Policy, or "".
func NonceIn(policy string) string {
	if m := nonceInPolicy.FindStringSubmatch(policy); len(m) == 2 {
		return m[1]
	}
	return ""
}

// CheckPolicy reports a page that its own Content-Security-Policy would block.
func CheckPolicy(t *testing.T, name string, got Reply) {
	t.Helper()
	csp := got.Header.Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self' 'nonce-", "style-src 'self';", "form-action 'self'",
		"frame-ancestors 'none'", "base-uri 'none'",
		"connect-src 'self'", "require-trusted-types-for 'script'", "trusted-types htmx",
	} {
		if !strings.Contains(csp, directive) {
			t.Errorf("%s: got policy %q, want %q in it", name, csp, directive)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
		t.Errorf("%s: the policy allows too much: %q", name, csp)
	}
	if strings.Contains(got.Body, "<script") && !strings.Contains(got.Body, `nonce="`+NonceIn(csp)+`"`) {
		t.Errorf("%s: the nonces of page and policy differ", name)
	}
	if regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|hx-on|javascript:`).MatchString(got.Body) {
		t.Errorf("%s: the page has an inline style or script", name)
	}
}

// Bearer returns a header with a machine token.
func Bearer(text string) http.Header { return http.Header{"Authorization": {"Bearer " + text}} }

var nonceInPolicy = regexp.MustCompile(`'nonce-([^']+)'`)

var markup = regexp.MustCompile(`<[^>]*>`)

// InWords returns a page's text with single spaces.
func InWords(page string) string {
	return strings.Join(strings.Fields(markup.ReplaceAllString(page, " ")), " ")
}
