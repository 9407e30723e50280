// Package page owns what all responses to a browser share: rendering, the frame of a
// page, error pages, messages for the next page, addresses, CSV files, and numbers and
// times as text. The dashboard and the web server import it. It must import neither, and
// it reads nothing from Valkey.
package page

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/seal"
	"tidegate/web/static"
)

// Renderer writes pages. It is safe for concurrent use once its fields are set.
type Renderer struct {
	base  string // prefix of every address; may be empty
	stage string // name of the deployment; may be empty
	log   *slog.Logger
	// answered is the second of the Unix epoch at which Valkey last knew a session, and took
	// is how long that took, in microseconds.
	answered, took atomic.Int64
	denied         deniedCount
	outage         atomic.Pointer[string] // what plans do without Valkey, as far as it is known
	// Session holds the logged-in user and the message for the next page.
	Session *scs.SessionManager
	// Sealer encrypts secrets for a later request; nil without a store.
	Sealer *seal.Sealer
	// Resumes reports whether the form of a request can be shown again as it was typed; nil
	// if none can.
	Resumes func(*http.Request) bool
	// CountDenied returns how many callers limits deny now, and whether there are more; nil
	// if nobody can tell.
	CountDenied func(context.Context) (n int, more bool, err error)
	// Warnings returns what every page says about the log of changes; nil for nothing.
	Warnings func(context.Context) []string
	// Notes returns what a request's user must know of its changes; nil for nothing.
	Notes func(context.Context) []string
}

// New returns a Renderer of pages whose addresses begin with base. Every page shows the
// stage unless it is empty.
func New(base, stage string, log *slog.Logger, session *scs.SessionManager) *Renderer {
	return &Renderer{base: base, stage: stage, log: log, Session: session}
}

// Answered notes that Valkey knew a session just now, and how long that took.
func (rd *Renderer) Answered(took time.Duration) {
	rd.answered.Store(time.Now().Unix())
	rd.took.Store(took.Microseconds())
}

// RememberOutage takes what the plans do with calls while Valkey does not answer, for the
// page of an outage.
func (rd *Renderer) RememberOutage(text string) { rd.outage.Store(&text) }

// deniedCount is the last answer of CountDenied, for the time that it holds.
type deniedCount struct {
	sync.Mutex
	until time.Time
	text  string
}

// deniedFor is how long the navigation shows one count, so that an environment counts once
// for many pages and refreshes.
const deniedFor = 4 * time.Second

// deniedNow tells how many callers a limit denies now: "3 now"; empty for none, or if that
// is unknown.
func (rd *Renderer) deniedNow(r *http.Request) string {
	if rd.CountDenied == nil {
		return ""
	}
	d := &rd.denied
	d.Lock()
	defer d.Unlock()
	if now := time.Now(); now.After(d.until) {
		n, more, err := rd.CountDenied(r.Context())
		if err != nil {
			rd.Warn("count denied callers", err)
			return ""
		}
		d.text, d.until = "", now.Add(deniedFor)
		if n > 0 {
			d.text = strconv.Itoa(n)
			if more {
				d.text += "+"
			}
			d.text += " now"
		}
	}
	return d.text
}

// Warn logs an error that a page works without.
func (rd *Renderer) Warn(operation string, err error) { rd.log.Warn(operation, "cause", err) }

// Render responds with a component. If rendering fails, it returns an error and sends no
// part of the component.
func (rd *Renderer) Render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) error {
	var body bytes.Buffer
	// The page that reports an expired deadline must render after the deadline.
	if err := c.Render(context.WithoutCancel(r.Context()), &body); err != nil {
		rd.log.Error("render", "cause", err)
		return Problem{Status: http.StatusInternalServerError}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // fails only after the client disconnected
	return nil
}

// RenderLive responds to a refresh with the live part of a page, and to any other request
// with the whole page.
func (rd *Renderer) RenderLive(w http.ResponseWriter, r *http.Request, live, whole templ.Component) error {
	if IsRefresh(r) {
		whole = live
	}
	return rd.Render(w, r, http.StatusOK, whole)
}

// Redirect makes the browser get an address. It returns nil, for handlers that end so.
func Redirect(w http.ResponseWriter, r *http.Request, address string) error {
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// Leave is Redirect for a form that may be in a dialog: then HX-Redirect makes the page
// around it get the address.
func Leave(w http.ResponseWriter, r *http.Request, address string) error {
	if !IsRefresh(r) {
		return Redirect(w, r, address)
	}
	w.Header().Set("HX-Redirect", address)
	w.WriteHeader(http.StatusOK)
	return nil
}

// IsRefresh reports whether htmx sent the request: to refresh the live part of a page, or
// from a dialog.
func IsRefresh(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// CanEdit reports whether the user may make changes.
func CanEdit(r *http.Request) bool { return auth.From(r.Context()).CanEdit() }

type nonceKey struct{}

// WithNonce adds the nonce of the response's Content-Security-Policy to the request.
func WithNonce(r *http.Request, nonce string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), nonceKey{}, nonce))
}

func nonceOf(r *http.Request) string {
	nonce, _ := r.Context().Value(nonceKey{}).(string)
	return nonce
}

// Path returns the address of a path of the dashboard.
func (rd *Renderer) Path(p string) string { return rd.base + p }

// ChartScript returns the address of the script that draws charts, for
// templates.Page.Chart.
func (rd *Renderer) ChartScript() string { return rd.staticPath(static.Load().Chart) }

func (rd *Renderer) staticPath(name string) string { return rd.Path("/static/" + name) }

// Address joins a path and a query without its empty parameters.
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

// LocalPath returns next if it is a path of this dashboard other than the log-in, and the
// start page otherwise. Browsers read a backslash as a slash and drop tabs and line
// breaks, so LocalPath rejects paths with any of these.
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

// BackTo is LocalPath for forms that the log-in page has too: it also accepts that page.
func (rd *Renderer) BackTo(next string) string {
	if next == rd.Path("/login") {
		return next
	}
	return rd.LocalPath(next)
}
