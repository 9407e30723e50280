package page

import (
	"net/url"
	"strings"
)

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
