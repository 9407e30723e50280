//go:build unix

package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/store/keyspace"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// The log-in at the built function.
const user, password = "bench", "a password that only this benchmark uses"

// starter starts the built admin function and the echo function, which does nothing.
type starter struct {
	admin, echo harness.Function
	journaled   *harness.Function // admin with a journal; nil for none
	hash        string            // of the password
}

// newStarter prepares the built functions for a Valkey.
func newStarter(admin, echo, valkeyURL string) (*starter, error) {
	hash, err := argon2id.CreateHash(password, argon2id.DefaultParams)
	if err != nil {
		return nil, fmt.Errorf("hash the password: %w", err)
	}
	env := map[string]string{"VALKEY_URL": valkeyURL, "KEY_PEPPER": harness.Pepper, "ADMIN_USER": user,
		"ADMIN_PASSWORD_HASH": hash}
	return &starter{
		admin: harness.Function{Name: "admin", Binary: admin, Env: env,
			Valid: hasStatus(http.StatusOK)},
		echo: harness.Function{Name: "echo", Binary: echo},
		hash: hash,
	}, nil
}

// useJournal makes measure start the admin function with a journal too. useJournal fills
// the journal with a checkpoint and an entry of each bucket, since a start reads them
// all.
func (s *starter) useJournal(ctx context.Context, client valkey.Client, address string) error {
	objects, err := journal.OpenStore(address)
	if err != nil {
		return err
	}
	key := audit.NewKey(apikey.Pepper(harness.Pepper))
	log := audit.NewLog(client, key)
	log.UseJournal(journal.New(objects, client, key, false, slog.New(slog.DiscardHandler)))
	filled := map[keyspace.Bucket]bool{}
	for i := 0; len(filled) < keyspace.Buckets; i++ {
		subject := fmt.Sprint("subject", i)
		bucket := keyspace.BucketOf(subject)
		if filled[bucket] {
			continue
		}
		err := log.Append(ctx, audit.Entry{
			By: audit.Actor{Kind: "system", Name: "bench"}, Action: audit.KeyReset, Subject: subject})
		if err != nil {
			return fmt.Errorf("fill the journal: %w", err)
		}
		filled[bucket] = true
	}
	with := s.admin
	with.Env = maps.Clone(with.Env)
	with.Env["JOURNAL"] = address
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		with.Env[name] = os.Getenv(name)
	}
	s.journaled = &with
	return nil
}

// measure starts the functions in turns, each starts times. Then it measures as many
// first pages and log-ins.
func (s *starter) measure(ctx context.Context, starts int) ([]figures.Figure, error) {
	functions := []harness.Function{s.admin, s.echo}
	if s.journaled != nil {
		functions = append(functions, *s.journaled)
	}
	times, err := harness.ColdStarts(ctx, starts, [][]byte{request(http.MethodGet, "/login", "", nil)},
		functions...)
	if err != nil {
		return nil, err
	}
	cold, echo := figures.Median(times[0]), figures.Median(times[1])
	all := []figures.Figure{
		figures.InMillis("admin.coldstart_ms", cold),
		figures.InMillis("admin.coldstart_over_echo_ms", cold-echo),
	}
	for _, measure := range []func(context.Context, int) ([]figures.Figure, error){s.firstPages, s.logins} {
		measured, err := measure(ctx, starts)
		if err != nil {
			return nil, err
		}
		all = append(all, measured...)
	}
	if s.journaled != nil {
		with := figures.Median(times[2])
		all = append(all, figures.InMillis("admin.journal.coldstart_ms", with),
			figures.Ratio("admin.journal.coldstart_vs_none", with, cold))
	}
	return all, nil
}

// firstPages compares the first page of a new environment with its second.
func (s *starter) firstPages(ctx context.Context, n int) ([]figures.Figure, error) {
	cookie, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	overview := request(http.MethodGet, "/", cookie, nil)
	var first, second []time.Duration
	for range n {
		took, err := visits(ctx, s.admin, 2, overview)
		if err != nil {
			return nil, err
		}
		first, second = append(first, took[0]), append(second, took[1])
	}
	one, two := figures.Median(first), figures.Median(second)
	return []figures.Figure{
		figures.InMillis("admin.first_page_ms", one),
		figures.Ratio("admin.first_page_vs_second", one, two),
	}, nil
}

// logins compares a log-in with the check of its password alone.
func (s *starter) logins(ctx context.Context, n int) ([]figures.Figure, error) {
	var hashTimes []time.Duration
	for range n {
		began := time.Now()
		if _, err := argon2id.ComparePasswordAndHash(password, s.hash); err != nil {
			return nil, fmt.Errorf("check the password: %w", err)
		}
		hashTimes = append(hashTimes, time.Since(began))
	}
	took, err := visits(ctx, s.loginFunction(), n, login())
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	whole, hash := figures.Median(took), figures.Median(hashTimes)
	return []figures.Figure{
		figures.InMillis("admin.login_ms", whole),
		figures.Ratio("admin.login_vs_argon2id", whole, hash),
	}, nil
}

// loginFunction returns the admin function, whose answers are valid for a log-in.
func (s *starter) loginFunction() harness.Function {
	f := s.admin
	f.Valid = hasStatus(http.StatusSeeOther)
	return f
}

// visits starts an environment, sends it an event n times and returns the time of each
// answer.
func visits(ctx context.Context, f harness.Function, n int, event []byte) ([]time.Duration, error) {
	function, err := harness.Open(f)
	if err != nil {
		return nil, err
	}
	defer function.Close()
	var times []time.Duration
	for range n {
		r, _, err := function.Invoke(ctx, event)
		if err != nil {
			return nil, err
		}
		times = append(times, harness.Took(r))
	}
	return times, nil
}

// session logs in and returns the session's cookie.
func (s *starter) session(ctx context.Context) (string, error) {
	_, answer, err := harness.ColdStart(ctx, s.loginFunction(), login())
	if err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	var r response
	if err := json.Unmarshal(answer, &r); err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	if len(r.Cookies) == 0 {
		return "", errors.New("log in: no cookie")
	}
	var cookies []string
	for _, c := range r.Cookies {
		cookie, _, _ := strings.Cut(c, ";")
		cookies = append(cookies, cookie)
	}
	return strings.Join(cookies, "; "), nil
}

func login() []byte {
	return request(http.MethodPost, "/login", "", url.Values{"user": {user}, "password": {password}})
}

// request returns the event of an HTTP API for a page.
func request(method, path, cookie string, form url.Values) []byte {
	headers := map[string]string{"host": "dashboard.example", "sec-fetch-site": "same-origin",
		"origin": "https://dashboard.example"}
	if form != nil {
		headers["content-type"] = "application/x-www-form-urlencoded"
	}
	event := map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": path, "headers": headers, "body": form.Encode(),
		"requestContext": map[string]any{
			"stage":      "$default",
			"domainName": "dashboard.example",
			"http":       map[string]any{"method": method, "path": path, "sourceIp": "192.0.2.1"},
		},
	}
	if cookie != "" {
		headers["cookie"] = cookie
	}
	text, _ := json.Marshal(event) // strings always encode
	return text
}

// response has the fields of a function's answer that the benchmark reads.
type response struct {
	StatusCode int      `json:"statusCode"`
	Cookies    []string `json:"cookies"`
}

// hasStatus returns a function that returns an error for an answer with another status.
func hasStatus(status int) func(answer []byte) error {
	return func(answer []byte) error {
		var r response
		if err := json.Unmarshal(answer, &r); err != nil {
			return fmt.Errorf("decode the response: %w", err)
		}
		if r.StatusCode != status {
			return fmt.Errorf("status %d, want %d", r.StatusCode, status)
		}
		return nil
	}
}
