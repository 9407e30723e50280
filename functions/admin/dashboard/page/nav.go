package page

import (
	"net/http"
	"strings"

	"tidegate/web/templates"
)

// mainPages are the links at the top of every page, in their order.
var mainPages = []struct{ path, text string }{
	{"/", "Overview"},
	{"/keys", "Keys"},
	{"/denials", "Denials"},
	{"/alerts", "Alerts"},
	{"/policies", "Policies"},
	{"/overrides", "Overrides"},
	{"/audit", "Audit"},
	{"/explain", "Explain"},
	{"/simulate", "Simulate"},
	{"/settings", "Settings"},
}

// nav marks the main page that the request asks for, or that is above it.
func (rd *Renderer) nav(r *http.Request) []templates.Choice {
	var links []templates.Choice
	for _, m := range mainPages {
		at := rd.Path(m.path)
		current := r.URL.Path == at || m.path != "/" && strings.HasPrefix(r.URL.Path, at+"/") ||
			m.path == "/keys" && strings.HasPrefix(r.URL.Path, rd.Path("/callers"))
		links = append(links, templates.Choice{Text: m.text, Address: at, Current: current})
	}
	return links
}
