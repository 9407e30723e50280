//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"tidegate/internal/limiter"
)

// caller makes calls with one credential.
type caller struct {
	name         string // for reports, never the credential
	credential   string
	plan         string          // callers of one plan share rows of the result
	limits       []limiter.Limit // nil if unknown
	unregistered bool            // the key does not exist
}

// limitsOf returns the limits of all callers.
func limitsOf(callers []caller) []limiter.Limit {
	var all []limiter.Limit
	for _, c := range callers {
		all = append(all, c.limits...)
	}
	return all
}

// target is the API under load.
type target struct {
	url     string
	http    bool // an HTTP API, which answers every denial with 403
	client  *http.Client
	callers []caller
}

func newTarget(address string, isHTTP bool, connections int, timeout time.Duration) *target {
	transport := &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections,
		IdleConnTimeout: time.Minute, DisableCompression: true}
	client := &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &target{url: address, http: isHTTP, client: client}
}

func (t *target) close() { t.client.CloseIdleConnections() }

// maxBody is the maximum number of bytes that are read of an answer's body.
const maxBody = 64 << 10

// call makes one call as caller i. The caller of call sets the outcome's times.
func (t *target) call(ctx context.Context, i int) outcome {
	o := outcome{caller: int32(i), kind: broken}
	if a, err := t.get(ctx, t.callers[i].credential); err == nil {
		o.status, o.kind = int16(a.status), t.read(a)
	}
	return o
}

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (t *target) get(ctx context.Context, credential string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, http.NoBody)
	if err != nil {
		return answer{}, withoutURL(err)
	}
	request.Header.Set("x-api-key", credential)
	response, err := t.client.Do(request)
	if err != nil {
		return answer{}, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return answer{response.StatusCode, response.Header, body}, err
}

// withoutURL removes the address from an error, since it may have a password.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("call the target: %w", err)
}

var (
	degradedMark = []byte(`"degraded"`)     // in the local backend's answer
	overLimit    = []byte("quota-exceeded") // the problem type of a denial by a limit
)

// read classifies an answer. A denial of a REST API without the problem type of a limit
// means that the caller is banned or could not be checked.
func (t *target) read(a answer) kind {
	switch status := a.status; {
	case status >= 200 && status < 300 && bytes.Contains(a.body, degradedMark):
		return undecided
	case status >= 200 && status < 300:
		return admitted
	case status == http.StatusTooManyRequests && !bytes.Contains(a.body, overLimit):
		return undecided
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && t.http:
		return denied
	case status == http.StatusUnauthorized:
		return unauthorized
	}
	return failed
}

// expects reports whether the outcome's kind is possible for its caller.
func (t *target) expects(o outcome) bool {
	if !t.callers[o.caller].unregistered {
		return o.kind == admitted || o.kind == denied
	}
	return o.kind == unauthorized || o.kind == denied && t.http
}
