package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of one call.
const (
	callTimeout = 35 * time.Second // longer than every timeout of API Gateway
	maxAnswer   = 1 << 20
)

// call is a request to make.
type call struct {
	method, url string
	header      map[string]string
	body        string
}

func (s *session) get(ctx context.Context, url string) answer { return s.do(ctx, call{url: url}) }

// withKey makes a call on the path of an API with the key, as a script of another site
// does. Its caller must have called makeRoom.
func (s *session) withKey(ctx context.Context, base string) answer {
	return s.withKeyAt(ctx, base+s.path)
}

// withKeyAt is withKey on any URL. Every 2xx counts as 200: which one is the backend's
// choice.
func (s *session) withKeyAt(ctx context.Context, url string) answer {
	a := s.do(ctx, call{method: s.method, url: url, body: s.body,
		header: map[string]string{"X-Api-Key": s.key, "Origin": someOrigin}})
	if a.status/100 == http.StatusOK/100 {
		a.status = http.StatusOK
	}
	return a
}

// do makes a call. It does not follow redirects and does not retry.
func (s *session) do(ctx context.Context, c call) answer {
	method := cmp.Or(c.method, http.MethodGet)
	request, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(c.body))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("User-Agent", "tidegate-verify")
	if c.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	s.calls.Add(1)
	began := s.now()
	response, err := s.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer{status: response.StatusCode, header: response.Header, body: string(body),
		took: s.now().Sub(began), err: err}
}

// answer is the result of one call. err is set if there was no answer.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error
}

// echoed is the answer of the example APIs' backend.
type echoed struct {
	Path       string         `json:"path"`
	Authorizer map[string]any `json:"authorizer"`
}

func (a answer) echo() (echoed, bool) {
	var e echoed
	err := json.Unmarshal([]byte(a.body), &e)
	return e, err == nil && e.Authorizer != nil
}

// context returns the authorizer context that the backend got; nil if the answer does not
// have it.
func (a answer) context() map[string]any {
	e, _ := a.echo()
	return e.Authorizer
}

var remainingItem = regexp.MustCompile(`;r=(\d{1,18})`)

// remaining returns the remaining calls of the tightest limit, from the context or else
// from the header.
func (a answer) remaining() (int64, bool) {
	text := fmt.Sprint(a.context()["remaining"])
	if item := remainingItem.FindStringSubmatch(a.header.Get("RateLimit")); item != nil &&
		a.context() == nil {
		text = item[1]
	}
	n, err := strconv.ParseFloat(text, 64) // a number of JSON, or digits
	return int64(n), err == nil
}

// remainingFalls reports whether the remaining calls decrease from one answer to the
// next. known is whether any answer has them, and seen lists them.
func remainingFalls(answers []answer) (fell, known bool, seen string) {
	last := int64(-1)
	for _, a := range answers {
		n, found := a.remaining()
		if !found {
			continue
		}
		if seen != "" {
			seen += ", "
		}
		seen += strconv.FormatInt(n, 10)
		fell = fell || known && n < last
		known, last = true, n
	}
	return fell, known, "remaining " + seen
}

// policy returns the RateLimit-Policy of an answer.
func (a answer) policy() string {
	if text, found := a.context()["rateLimitPolicy"].(string); found {
		return text
	}
	return strings.Join(a.header.Values("RateLimit-Policy"), ", ")
}
