package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
)

const (
	requestTimeout = 30 * time.Second
	tries          = 8 // of a request that fails temporarily
	maxWait        = 30 * time.Second
	maxAnswer      = 8 << 20
)

// client calls the JSON API of a deployment with a machine token.
type client struct {
	api   string // address, /api/v1 included
	token secret
	http  *http.Client
}

func newClient(dashboard string, token secret) *client {
	return &client{api: strings.TrimSuffix(dashboard, "/") + "/api/v1", token: token,
		http: &http.Client{Timeout: requestTimeout}}
}

// failed is an error answer of the API. Its text never repeats the request.
type failed struct {
	status int
	detail string
}

func (f *failed) Error() string { return fmt.Sprintf("%d %s", f.status, f.detail) }

// call makes a request and decodes the answer into out. It repeats a request that fails
// temporarily, up to tries times in total. It returns the answer's header.
func (c *client) call(ctx context.Context, method, path string, header http.Header, in, out any) (
	http.Header, error,
) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	for try := 1; ; try++ {
		answer, wait, err := c.once(ctx, method, path, header, body, out)
		if err == nil || wait == 0 || try == tries {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(wait, maxWait)):
		}
	}
}

// once makes one request. After an error, wait is how long to wait before a repetition
// may succeed; 0 if it cannot succeed.
func (c *client) once(ctx context.Context, method, path string, header http.Header, body []byte, out any) (
	answer http.Header, wait time.Duration, err error,
) {
	r, err := http.NewRequestWithContext(ctx, method, c.api+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Authorization", "Bearer "+string(c.token))
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, time.Second, fmt.Errorf("%s %s: %w", method, path, errors.Unwrap(err))
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, time.Second, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, retryAfter(response), problemOf(response.StatusCode, text)
	}
	return response.Header, 0, json.Unmarshal(text, out)
}

// retryAfter returns how long to wait before the same request may succeed; 0 if it
// cannot.
func retryAfter(response *http.Response) time.Duration {
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return max(time.Duration(seconds)*time.Second, time.Second)
	}
	return 0
}

// problemOf returns the error of an answer with its status and its problem.
func problemOf(status int, text []byte) error {
	var p struct {
		Detail  string
		Message string // of API Gateway
		Errors  []struct{ Location, Message string }
	}
	_ = json.Unmarshal(text, &p) // on failure only the status is reported
	detail := p.Detail + p.Message
	for _, e := range p.Errors {
		detail += " " + e.Location + " " + e.Message
	}
	return &failed{status, clipped(detail, 400)}
}

// policy returns the policy in force and its version.
func (c *client) policy(ctx context.Context) (p policydoc.Policy, version string, err error) {
	header, err := c.call(ctx, http.MethodGet, "/policy", nil, nil, &p)
	return p, header.Get("ETag"), err
}

// savePolicy saves a policy, or only validates it if dry is true. It returns the changes
// as text, with the warnings about them, which it accepts.
func (c *client) savePolicy(ctx context.Context, p policydoc.Policy, version, reason string, dry bool) (
	changes string, err error,
) {
	path := "/policy?accept=true&dry_run=true"
	header := http.Header{}
	if !dry {
		path = "/policy?accept=true&reason=" + reason
		header.Set("If-Match", version)
	}
	var answer struct {
		Text     string
		Warnings []string
	}
	_, err = c.call(ctx, http.MethodPut, path, header, p, &answer)
	for _, warning := range answer.Warnings {
		answer.Text += "Warning: " + warning + "\n"
	}
	return answer.Text, err
}
