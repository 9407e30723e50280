package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// answer is the response that a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %s", a.status, a.header, a.body) }

// client keeps no connections, since a kept one may lead to a gateway that no longer
// runs.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	Timeout:       40 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func try(ctx context.Context, url, key string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer{}, fmt.Errorf("call: %w", err)
	}
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	return send(r)
}

func send(r *http.Request) (answer, error) {
	response, err := client.Do(r)
	if err != nil {
		return answer{}, fmt.Errorf("call: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("call: %w", err)
	}
	return answer{response.StatusCode, response.Header, string(body)}, nil
}

func get(t *testing.T, url, key string) answer {
	t.Helper()
	a, err := try(t.Context(), url, key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// decided calls until Valkey decides. An environment without a connection may answer
// before it has one.
func decided(t *testing.T, url, key string) answer {
	t.Helper()
	var a answer
	waiting.Until(t, "a call that Valkey decides", func() bool {
		a = get(t, url, key)
		return !a.degraded()
	})
	return a
}

// problem is a problem document.
type problem struct {
	Type, Detail string
	Status       int
	Violated     []string `json:"violated-policies"`
}

func (a answer) problem() problem {
	var p problem
	_ = json.Unmarshal([]byte(a.body), &p) // any other body gives the zero value
	return p
}

// context returns the authorizer's context as the backend echoed it.
func (a answer) context() map[string]string {
	var echo struct{ Authorizer map[string]any }
	_ = json.Unmarshal([]byte(a.body), &echo)
	fields := map[string]string{}
	for name, value := range echo.Authorizer {
		fields[name] = fmt.Sprint(value)
	}
	return fields
}

// degraded reports whether the call was decided without Valkey. A denial's problem type
// says so.
func (a answer) degraded() bool {
	switch a.status {
	case http.StatusOK:
		return a.context()["degraded"] == "true"
	case http.StatusTooManyRequests:
		return strings.HasSuffix(a.problem().Type, "#temporary-reduced-capacity") &&
			a.header.Get("Retry-After") == "1"
	}
	return false
}
