package page

import (
	"net/url"
	"strings"
)

// Address joins a path and a query, leaving out parameters that are empty.
func Address(path string, query url.Values) string {
	q := url.Values{}
	for name := range query {
		if v := query.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// LocalPath returns where to go after the login: next if it is a path of this dashboard,
// else the start page. Browsers read a backslash as a slash and drop tabs and line
// breaks, so those are refused and not interpreted.
func (rd *Renderer) LocalPath(next string) string {
	home := rd.Path("/")
	if len(next) > 2000 || !strings.HasPrefix(next, home) || strings.HasPrefix(next, "//") ||
		strings.ContainsRune(next, '\\') {
		return home
	}
	if strings.ContainsFunc(next, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return home
	}
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.Path == rd.Path("/login") {
		return home
	}
	return next
}

// BackTo is localPath, which refuses the login as a place to go to after the login; from
// a form on the login it is one.
func (rd *Renderer) BackTo(next string) string {
	if next == rd.Path("/login") {
		return next
	}
	return rd.LocalPath(next)
}
