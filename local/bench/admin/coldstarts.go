//go:build unix

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// The user who logs in to the built function.
const user, password = "bench", "a password that only this benchmark uses"

// starter starts the built admin function and a function that does nothing.
type starter struct {
	admin, echo runtimeapi.Function
	journalled  *runtimeapi.Function // admin with a journal; nil for none
	hash        string               // of the password
}

// newStarter prepares the built functions for a Valkey.
func newStarter(admin, echo, valkeyURL string) (*starter, error) {
	hash, err := argon2id.CreateHash(password, argon2id.DefaultParams)
	if err != nil {
		return nil, fmt.Errorf("hash the password: %w", err)
	}
	return &starter{
		admin: runtimeapi.Function{Name: "admin", Command: []string{admin}, Env: []string{
			"VALKEY_URL=" + valkeyURL, "KEY_PEPPER=" + pepper, "ADMIN_USER=" + user, "ADMIN_PASSWORD_HASH=" +
				hash,
		}},
		echo: runtimeapi.Function{Name: "echo", Command: []string{echo}},
		hash: hash,
	}, nil
}

// request is an HTTP API's event for a page.
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
	text, _ := json.Marshal(event) // texts always encode
	return text
}

// response has the fields of a function's answer that the benchmark reads.
type response struct {
	StatusCode int      `json:"statusCode"`
	Cookies    []string `json:"cookies"`
}

var errResponse = errors.New("the admin function did not answer as it should")

func read(answer []byte, status int) (response, error) {
	var r response
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errResponse, err)
	}
	if r.StatusCode != status {
		return r, fmt.Errorf("%w: status %d: %.300s", errResponse, r.StatusCode, answer)
	}
	return r, nil
}

// measure starts both functions in turns, each starts times.
func (s *starter) measure(ctx context.Context, starts int) ([]figures.Figure, error) {
	cookie, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	var cold, kept, echo, first, second []time.Duration
	for range starts {
		took, err := coldStart(ctx, s.admin)
		if err != nil {
			return nil, err
		}
		if s.journalled != nil {
			took, err := coldStart(ctx, *s.journalled)
			if err != nil {
				return nil, err
			}
			kept = append(kept, took)
		}
		bare, _, err := runtimeapi.ColdStart(ctx, s.echo, request(http.MethodGet, "/login", "", nil))
		if err != nil {
			return nil, fmt.Errorf("cold start of echo: %w", err)
		}
		pages, err := s.visits(ctx, 2, request(http.MethodGet, "/", cookie, nil), http.StatusOK)
		if err != nil {
			return nil, err
		}
		cold, echo = append(cold, took), append(echo, bare)
		first, second = append(first, pages[0]), append(second, pages[1])
	}
	login, err := s.logins(ctx, starts)
	if err != nil {
		return nil, err
	}
	if s.journalled != nil {
		with, without := figures.Quantile(kept, 0.5), figures.Quantile(cold, 0.5)
		login = append(login, figures.Of("admin.journal.coldstart_ms", figures.Millis(with), "ms"),
			figures.Of("admin.journal.coldstart_vs_none", float64(with)/float64(without), "ratio"))
	}
	start, bare := figures.Quantile(cold, 0.5), figures.Quantile(echo, 0.5)
	one, two := figures.Quantile(first, 0.5), figures.Quantile(second, 0.5)
	return append([]figures.Figure{
		figures.Of("admin.coldstart_ms", figures.Millis(start), "ms"),
		figures.Of("admin.coldstart_over_echo_ms", figures.Millis(start-bare), "ms"),
		figures.Of("admin.first_page_ms", figures.Millis(one), "ms"),
		figures.Of("admin.first_page_vs_second", float64(one)/float64(two), "ratio"),
	}, login...), nil
}

// coldStart starts the admin function for its log-in page.
func coldStart(ctx context.Context, admin runtimeapi.Function) (time.Duration, error) {
	took, answer, err := runtimeapi.ColdStart(ctx, admin, request(http.MethodGet, "/login", "", nil))
	if err == nil {
		_, err = read(answer, http.StatusOK)
	}
	if err != nil {
		return 0, fmt.Errorf("cold start of admin: %w", err)
	}
	return took, nil
}

// visits starts an environment, lets it get ready, and sends it an event several times.
func (s *starter) visits(ctx context.Context, n int, event []byte, status int) ([]time.Duration, error) {
	function, err := runtimeapi.Start(ctx, s.admin)
	if err != nil {
		return nil, err
	}
	defer function.Close()
	var times []time.Duration
	for range n {
		took, answer, err := function.Invoke(event)
		if err == nil {
			_, err = read(answer, status)
		}
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

func login() []byte {
	return request(http.MethodPost, "/login", "", url.Values{"user": {user}, "password": {password}})
}

// session logs in and returns the session's cookie.
func (s *starter) session(ctx context.Context) (string, error) {
	_, answer, err := runtimeapi.ColdStart(ctx, s.admin, login())
	if err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	r, err := read(answer, http.StatusSeeOther)
	if err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	var cookies []string
	for _, c := range r.Cookies {
		cookie, _, _ := strings.Cut(c, ";")
		cookies = append(cookies, cookie)
	}
	if cookies == nil {
		return "", fmt.Errorf("%w: no cookie", errResponse)
	}
	return strings.Join(cookies, "; "), nil
}

// logins compares a log-in with the check of its password alone.
func (s *starter) logins(ctx context.Context, n int) ([]figures.Figure, error) {
	var hashed []time.Duration
	for range n {
		began := time.Now()
		if ok, err := argon2id.ComparePasswordAndHash(password, s.hash); err != nil || !ok {
			return nil, fmt.Errorf("check the password: %w", errors.Join(err, errResponse))
		}
		hashed = append(hashed, time.Since(began))
	}
	took, err := s.visits(ctx, n, login(), http.StatusSeeOther)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	whole, alone := figures.Quantile(took, 0.5), figures.Quantile(hashed, 0.5)
	return []figures.Figure{
		figures.Of("admin.login_ms", figures.Millis(whole), "ms"),
		figures.Of("admin.login_vs_argon2id", float64(whole)/float64(alone), "ratio"),
	}, nil
}
