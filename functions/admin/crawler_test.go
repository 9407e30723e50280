package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// crawler follows links and sends forms of the dashboard, one of each kind.
type crawler struct {
	t      *testing.T
	server *httptest.Server
	client *http.Client
	// values has the text for empty fields by name. # is replaced by the number of the
	// form.
	values map[string]string
	kinds  map[string]bool // kinds of links and forms that were found
	links  []string        // to follow
	forms  []form          // to send
	sent   int             // number of forms sent
}

// form is a form as a browser sends it when one of its buttons is pressed.
type form struct {
	page   string // path of the page that has it
	action string
	fields url.Values
	kind   string
}

func newCrawler(t *testing.T, handler http.Handler, values map[string]string) *crawler {
	t.Helper()
	server := httptest.NewTLSServer(handler) // the session's cookie is Secure
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	client.Jar = jar
	return &crawler{t: t, server: server, client: client, values: values, kinds: map[string]bool{}}
}

var variable = regexp.MustCompile(`[0-9A-Za-z]{12,}|[0-9]+`)

// kind returns the path and the names of the query of an address, with N in place of ids
// and numbers: pages that differ only in these are of one kind.
func kind(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	var names []string
	for name := range u.Query() {
		names = append(names, name)
	}
	slices.Sort(names)
	return variable.ReplaceAllString(u.Path, "N") + "?" + strings.Join(names, "&")
}

// login sends the form of the log-in page.
func (c *crawler) login() {
	page, at := c.request(http.MethodGet, "/login", nil)
	for _, f := range c.formsOf(page, at) {
		if f.action == "/login" {
			c.send(f)
			return
		}
	}
	c.t.Fatal("the log-in page has no form")
}

// crawl starts at these addresses and continues until no link or form is new. It sends
// forms in the order of their turns.
func (c *crawler) crawl(addresses ...string) {
	c.links = append(c.links, addresses...)
	for len(c.links)+len(c.forms) > 0 {
		if len(c.links) > 0 {
			address := c.links[0]
			c.links = c.links[1:]
			c.visit(address)
			continue
		}
		slices.SortStableFunc(c.forms, func(a, b form) int { return a.turn() - b.turn() })
		next := c.forms[0]
		c.forms = c.forms[1:]
		c.send(next)
	}
}

// turn is higher for forms that delete or end what other forms need.
func (f form) turn() int {
	switch {
	case strings.HasSuffix(f.action, "/logout"), strings.HasSuffix(f.action, "/sessions/end"):
		return 2
	case strings.Contains(f.action, "delete"), strings.Contains(f.action, "revoke"),
		f.fields.Get("do") == "end", f.fields.Get("do") == "revoke":
		return 1
	}
	return 0
}

// request returns the page in the response, after redirects, and its address. page is nil
// if the response is not HTML.
func (c *crawler) request(method, address string, body io.Reader) (page *html.Node, at *url.URL) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+address, body)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusInternalServerError {
		c.t.Errorf("%s %s: got %d %v\n%s", method, address, answer.StatusCode, err, text)
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		return nil, nil
	}
	if page, err = html.Parse(strings.NewReader(string(text))); err != nil {
		c.t.Fatal(err)
	}
	return page, answer.Request.URL
}

func (c *crawler) visit(address string) {
	if page, at := c.request(http.MethodGet, address, nil); page != nil {
		c.look(page, at)
	}
}

// send loads a form's page again, fills in the form, sends it, and reads the response.
func (c *crawler) send(f form) {
	if page, at := c.request(http.MethodGet, f.page, nil); page != nil {
		for _, now := range c.formsOf(page, at) {
			if now.kind == f.kind {
				f = now
			}
		}
	}
	c.sent++
	for name, values := range f.fields {
		if known, ok := c.values[name]; ok && slices.Equal(values, []string{""}) {
			f.fields.Set(name, strings.ReplaceAll(known, "#", strconv.Itoa(c.sent)))
		}
	}
	page, at := c.request(http.MethodPost, f.action, strings.NewReader(f.fields.Encode()))
	if page == nil {
		return
	}
	c.look(page, at)
	for _, again := range c.formsOf(page, at) {
		if again.kind == f.kind && again.fields.Has("seen") { // other keys match now
			c.request(http.MethodPost, again.action, strings.NewReader(again.fields.Encode()))
		}
	}
}

// look adds a page's links and forms of new kinds to those to visit.
func (c *crawler) look(page *html.Node, at *url.URL) {
	for node := range page.Descendants() {
		if address := c.local(at, attribute(node, "href")); node.Data == "a" && address != "" &&
			c.isNew("GET "+kind(address)) {
			c.links = append(c.links, address)
		}
	}
	for _, f := range c.formsOf(page, at) {
		if c.isNew("POST " + f.kind) {
			c.forms = append(c.forms, f)
		}
	}
}

func (c *crawler) isNew(kind string) bool {
	old := c.kinds[kind]
	c.kinds[kind] = true
	return !old
}

// local returns the path and query of an address of the dashboard; empty for other sites.
func (c *crawler) local(base *url.URL, reference string) string {
	u, err := base.Parse(reference)
	if err != nil || u.Host != base.Host {
		return ""
	}
	return u.RequestURI()
}

// formsOf returns the forms of a page with method POST, one for each button.
func (c *crawler) formsOf(page *html.Node, at *url.URL) []form {
	var all []form
	for node := range page.Descendants() {
		if node.Data != "form" || !strings.EqualFold(attribute(node, "method"), "post") {
			continue
		}
		action, fields := c.local(at, attribute(node, "action")), fieldsOf(node)
		for button := range node.Descendants() {
			if button.Data != "button" || attribute(button, "type") == "button" {
				continue
			}
			f := form{page: at.RequestURI(), action: action, fields: maps.Clone(fields)}
			pressed := attribute(button, "value")
			if name := attribute(button, "name"); name != "" {
				f.fields[name] = append(slices.Clone(f.fields[name]), pressed)
			}
			f.kind = strings.Join([]string{kind(action), variable.ReplaceAllString(pressed, "N"),
				fields.Get("do")}, " ")
			all = append(all, f)
		}
	}
	return all
}

func fieldsOf(form *html.Node) url.Values {
	fields := url.Values{}
	for field := range form.Descendants() {
		name, value := attribute(field, "name"), attribute(field, "value")
		switch {
		case name == "":
		case field.Data == "select":
			fields.Add(name, selected(field))
		case field.Data == "textarea":
			fields.Add(name, content(field))
		case field.Data == "input" && (has(field, "checked") ||
			!slices.Contains([]string{"radio", "checkbox"}, attribute(field, "type"))):
			fields.Add(name, value)
		}
	}
	return fields
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(node *html.Node, name string) bool {
	return slices.ContainsFunc(node.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// selected returns the value of a select element: the selected option's, or the first's.
func selected(node *html.Node) string {
	value, found := "", false
	for option := range node.Descendants() {
		if option.Data == "option" && (!found || has(option, "selected")) {
			value, found = attribute(option, "value"), true
		}
	}
	return value
}

func content(node *html.Node) string {
	var b strings.Builder
	for text := range node.Descendants() {
		if text.Type == html.TextNode {
			b.WriteString(text.Data)
		}
	}
	return b.String()
}
