package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const (
	keysPerPage = 50
	maxSearch   = 100 // characters of a search
	maxCursor   = 1000
)

// keysQuery is the state of the list, all of it in the address.
type keysQuery struct {
	search, after string
	live          int
}

func readKeysQuery(r *http.Request) (keysQuery, bool) {
	q := r.URL.Query()
	k := keysQuery{search: q.Get("q"), after: q.Get("after"), live: liveSeconds(q)}
	return k, len([]rune(k.search)) <= maxSearch && len(k.after) <= maxCursor
}

func (k keysQuery) values() url.Values { return url.Values{"q": {k.search}, "after": {k.after}} }

func (d *dashboard) showKeys(w http.ResponseWriter, r *http.Request) {
	query, ok := readKeysQuery(r)
	if !ok {
		d.fail(w, r, problem{status: http.StatusBadRequest, heading: "This search is too long", advice: "Names have at most 100 characters."})
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.failStore(w, r, "read policy", err)
		return
	}
	list, err := d.Keys.List(r.Context(), set, policy.Query{Prefix: query.search, After: query.after, Count: keysPerPage})
	if err != nil {
		d.failStore(w, r, "list keys", err)
		return
	}
	usage, err := d.usage(r, set, list.Keys)
	if err != nil {
		d.failStore(w, r, "read usage", err)
		return
	}
	page := d.keysPage(r, query, list, usage)
	if isRefresh(r) {
		d.render(w, r, http.StatusOK, templates.KeysLive(page))
		return
	}
	d.render(w, r, http.StatusOK, templates.Keys(page))
}

// usage asks for nothing when there are no keys.
func (d *dashboard) usage(r *http.Request, set *policy.Set, keys []policy.Key) ([]limiter.Decision, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return d.Keys.Usage(r.Context(), set, keys)
}

func (d *dashboard) keysPage(r *http.Request, q keysQuery, list policy.Page, usage []limiter.Decision) templates.KeysPage {
	path := d.path("/keys")
	p := templates.KeysPage{
		Page:   d.page(r, "Keys"),
		Live:   d.live(r, path, q.values(), asOf(usage)),
		Search: templates.Search{Action: path, Text: q.search},
		Empty:  emptyKeys(q),
	}
	if q.live > 0 {
		p.Search.Live = strconv.Itoa(q.live)
	}
	if q.search != "" {
		p.Search.Clear = address(path, withLive(nil, q.live))
	}
	if q.after != "" {
		p.First = address(path, withLive(url.Values{"q": {q.search}}, q.live))
	}
	if list.Next != "" {
		p.Next = address(path, withLive(url.Values{"q": {q.search}, "after": {list.Next}}, q.live))
	}
	onward := address("", withLive(nil, q.live))
	for i, k := range list.Keys {
		p.Rows = append(p.Rows, d.keyRow(k, usage[i], onward))
	}
	p.Live.Summary = keysSummary(p.Rows)
	return p
}

// keysSummary counts what a screen reader is told of each change.
func keysSummary(rows []templates.KeyRow) string {
	blocked := 0
	for _, row := range rows {
		if row.Blocked != "" {
			blocked++
		}
	}
	return number(int64(len(rows))) + " keys shown, " + number(int64(blocked)) + " blocked now"
}

func emptyKeys(q keysQuery) templates.Empty {
	switch {
	case q.after != "":
		return templates.Empty{Heading: "No keys after this", Advice: "The list became shorter. Go back to its start."}
	case q.search != "":
		return templates.Empty{
			Heading: "No key found",
			Advice:  "No name starts with “" + clip(q.search, maxSearch) + "”. The search looks at the start of names, in upper or lower case.",
		}
	}
	return templates.Empty{
		Heading: "No keys yet",
		Advice:  "A key appears here as soon as it is created. A call with it then moves its bars:",
		Command: `curl -i -H "x-api-key: $KEY" "$API_URL"`,
	}
}

// asOf is the instant of the usage on the store's clock, or now by ours when there is none.
func asOf(usage []limiter.Decision) time.Time {
	if len(usage) > 0 {
		return usage[0].Now
	}
	return time.Now()
}
