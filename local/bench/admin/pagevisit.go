//go:build unix

package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/serverinfo"
	"tidegate/local/site"
	"tidegate/web/static"
)

// browser asks the dashboard for pages in a session of a user.
type browser struct {
	handler http.Handler
	client  valkey.Client
	bundle  static.Bundle
	cookie  string
}

// newBrowser starts a dashboard as functions/admin does.
func newBrowser(ctx context.Context, client valkey.Client) (*browser, error) {
	bundle, err := static.Load()
	if err != nil {
		return nil, err
	}
	handler, err := site.New(client, apikey.Pepper(pepper), bundle)
	if err != nil {
		return nil, err
	}
	b := &browser{handler: handler, client: client, bundle: bundle}
	return b, b.login(ctx)
}

func (b *browser) login(ctx context.Context) error {
	p := page{method: http.MethodPost, path: "/login",
		form: url.Values{"user": {site.User}, "password": {site.Password}}}
	got, _, err := b.ask(ctx, p)
	if err != nil {
		return err
	}
	for _, c := range got.Result().Cookies() {
		b.cookie = c.Name + "=" + c.Value
	}
	if got.Code != http.StatusSeeOther || b.cookie == "" {
		return fmt.Errorf("login: status %d", got.Code)
	}
	return nil
}

// page is a request of the browser.
type page struct {
	name, method, path string
	live               bool
	form               url.Values
}

// ask makes a browser's request, and returns the answer and the server's time.
func (b *browser) ask(ctx context.Context, p page) (*httptest.ResponseRecorder, time.Duration, error) {
	method := p.method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://dashboard.example"+p.path,
		strings.NewReader(p.form.Encode()))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Cookie", b.cookie)
	r.RemoteAddr = "192.0.2.1:1234"
	if p.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.live {
		r.Header.Set("Hx-Request", "true")
	}
	w, began := httptest.NewRecorder(), time.Now()
	b.handler.ServeHTTP(w, r)
	return w, time.Since(began), nil
}

// visitFigures has the figures of several visits to a page.
type visitFigures struct {
	p50, p95                time.Duration
	commands, reads, weight float64
}

// visit asks for a page several times.
func (b *browser) visit(ctx context.Context, p page, rounds int) (visitFigures, error) {
	var times []time.Duration
	var before work
	weight := 0
	for i := range rounds + 1 {
		if i == 1 { // the first one may find caches cold
			if err := before.read(ctx, b.client); err != nil {
				return visitFigures{}, err
			}
		}
		got, took, err := b.ask(ctx, p)
		if err != nil {
			return visitFigures{}, err
		}
		if got.Code != http.StatusOK {
			return visitFigures{}, fmt.Errorf("%s: status %d", p.name, got.Code)
		}
		if i > 0 {
			times, weight = append(times, took), got.Body.Len()
		}
	}
	var after work
	err := after.read(ctx, b.client)
	n := float64(rounds)
	return visitFigures{
		p50: figures.Quantile(times, 0.5), p95: figures.Quantile(times, 0.95), weight: float64(weight),
		commands: float64(after.commands-before.commands-1) / n,
		reads:    float64(after.reads-before.reads-1) / n,
	}, err
}

// work counts what the server did: commands, and reads from a connection. A flush that is
// not long is one read.
type work struct{ commands, reads int64 }

func (w *work) read(ctx context.Context, client valkey.Client) error {
	info, err := serverinfo.Read(ctx, client, "stats")
	if err != nil {
		return err
	}
	w.commands, w.reads = info.Integer("total_commands_processed"), info.Integer("total_reads_processed")
	return info.Err()
}

func measure(ctx context.Context, client valkey.Client, s *seed, o options) ([]figures.Figure, error) {
	b, err := newBrowser(ctx, client)
	if err != nil {
		return nil, err
	}
	pages, err := b.pages(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []figures.Figure
	first, live := 0.0, 0.0
	for _, p := range pages {
		v, err := b.visit(ctx, p, o.rounds)
		if err != nil {
			return nil, err
		}
		all = append(all, figures.Of("admin."+p.name+".server_ms", figures.Millis(v.p50), "ms"),
			figures.Of("admin."+p.name+".p95_ms", figures.Millis(v.p95), "ms"),
			figures.Of("admin."+p.name+".commands", v.commands, "commands"),
			figures.Of("admin."+p.name+".reads", v.reads, "reads"),
			figures.Of("admin."+p.name+".gzip_bytes", v.weight, "bytes"))
		if p.live {
			live = max(live, v.weight)
		} else {
			first = max(first, v.weight)
		}
	}
	weights, err := b.weights(ctx, first, live)
	return append(all, weights...), err
}

// weights are the bytes that a browser with an empty cache loads: the heaviest page, the
// stylesheet, the scripts and the icon, compressed.
func (b *browser) weights(ctx context.Context, heaviest, live float64) ([]figures.Figure, error) {
	sum := heaviest
	all := []figures.Figure{figures.Of("admin.heaviest_html_gzip_bytes", heaviest, "bytes")}
	for name, file := range map[string]string{"css": b.bundle.Style, "js": b.bundle.Script,
		"chart_js": b.bundle.Chart, "icon": b.bundle.Icon} {
		got, _, err := b.ask(ctx, page{path: "/static/" + file})
		if err != nil {
			return nil, err
		}
		if got.Header().Get("Content-Encoding") != "gzip" ||
			!bytes.HasPrefix(got.Body.Bytes(), []byte{0x1f, 0x8b}) {
			return nil, errors.New(file + " is not compressed")
		}
		sum += float64(got.Body.Len())
		all = append(all, figures.Of("admin."+name+"_gzip_bytes", float64(got.Body.Len()), "bytes"))
	}
	return append(all, figures.Of("admin.first_load_gzip_bytes", sum, "bytes"),
		figures.Of("admin.live_refresh_bytes", live, "bytes")), nil
}
