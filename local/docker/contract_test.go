package docker

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/testing/waiting"
)

// badCredentials checks that a bad credential gets 401 with a problem document on the
// REST API and 403 on the HTTP API. Such a call never reaches the backend.
func badCredentials(t *testing.T, c *composition) {
	t.Helper()
	unknown, err := apikey.Generate("demo")
	if err != nil {
		t.Fatal(err)
	}
	rest, http2 := c.url(t, "8080"), c.url(t, "8081")
	for name, key := range map[string]string{"none": "", "malformed": "tg_demo_nonsense",
		"unknown": unknown.Reveal()} {
		a := decidedCall(t, rest+"/orders", key)
		if a.status != http.StatusUnauthorized ||
			a.header.Get("Content-Type") != "application/problem+json" ||
			a.header.Get("WWW-Authenticate") == "" || !json.Valid([]byte(a.body)) {
			t.Errorf("REST API, %s: %s", name, a)
		}
		if a := get(t, http2+"/orders", key); a.status != http.StatusForbidden {
			t.Errorf("HTTP API, %s: %s", name, a)
		}
	}
}

// contextAtTheBackend checks that the backend, in its own container, gets the caller and
// the remaining quota. The answer to the client has the RateLimit fields.
func contextAtTheBackend(t *testing.T, c *composition, d *dashboard) {
	t.Helper()
	var rest, http2 answer
	waiting.Until(t, "two calls that Valkey decided", func() bool {
		key := d.key("free")
		rest, http2 = get(t, c.url(t, "8080")+"/orders", key), get(t, c.url(t, "8081")+"/orders", key)
		return !rest.degraded() && rest.context()["remaining"] == "9"
	})
	fields := rest.context()
	if fields["plan"] != "free" || fields["keyId"] == "" || fields["keyId"] != fields["principalId"] ||
		fields["denied"] != "false" {
		t.Errorf("the backend of the REST API got %v", fields)
	}
	if want := `"10 per 10 seconds";r=9;t=10`; rest.header.Get("RateLimit") != want {
		t.Errorf("RateLimit %q, want %q", rest.header.Get("RateLimit"), want)
	}
	if fields := http2.context(); fields["plan"] != "free" || fields["keyId"] != rest.context()["keyId"] ||
		fields["remaining"] != "8" {
		t.Errorf("the backend of the HTTP API got %v", fields)
	}
	if http2.header.Get("RateLimit") == "" {
		t.Errorf("no RateLimit field in %s", http2)
	}
}

// elevenCalls makes 11 calls within one window. If the machine is too slow, it starts
// again with a new key.
func elevenCalls(t *testing.T, c *composition, d *dashboard) (key string, statuses []int, last answer) {
	t.Helper()
	url := c.url(t, "8080") + "/orders"
	waiting.Until(t, "11 calls within one window", func() bool {
		key, statuses = d.key("free"), nil
		began, allDecided := time.Now(), true
		for range 11 {
			last = get(t, url, key)
			statuses = append(statuses, last.status)
			allDecided = allDecided && !last.degraded()
		}
		return allDecided && time.Since(began) < 9*time.Second
	})
	return key, statuses, last
}

// firstDenial checks the whole answer to the first denied call. Its Retry-After is exact:
// a call after that many seconds is allowed.
func firstDenial(t *testing.T, c *composition, d *dashboard) {
	t.Helper()
	key, statuses, last := elevenCalls(t, c, d)
	if want := append(slices.Repeat([]int{http.StatusOK}, 10),
		http.StatusTooManyRequests); !slices.Equal(statuses, want) {
		t.Fatalf("statuses %v, want %v; the last is %s", statuses, want, last)
	}
	seconds, err := strconv.Atoi(last.header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 10 {
		t.Fatalf("Retry-After %q", last.header.Get("Retry-After"))
	}
	due := time.NewTimer(time.Duration(seconds) * time.Second)
	defer due.Stop()
	for header, want := range map[string]string{
		"RateLimit":        `"10 per 10 seconds";r=0;t=` + strconv.Itoa(seconds),
		"RateLimit-Policy": `"10 per 10 seconds";q=10;w=10`,
		"Content-Type":     "application/problem+json",
	} {
		if got := last.header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	p := last.problem()
	if p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" ||
		p.Status != http.StatusTooManyRequests ||
		!slices.Equal(p.Violated, []string{"10 per 10 seconds"}) ||
		!strings.Contains(p.Detail, strconv.Itoa(seconds)+" second") {
		t.Errorf("problem %+v", p)
	}
	<-due.C
	if a := decidedCall(t, c.url(t, "8080")+"/orders", key); a.status != http.StatusOK {
		t.Errorf("after waiting %d s: %s", seconds, a)
	}
}

// denialOnTheHTTPAPI checks that a key over its limit gets 403 on the HTTP API, which
// counts the same calls.
func denialOnTheHTTPAPI(t *testing.T, c *composition, d *dashboard) {
	t.Helper()
	key := d.key("free")
	d.override(idOf(t, key), 1)
	if a := decidedCall(t, c.url(t, "8080")+"/orders", key); a.status != http.StatusOK {
		t.Errorf("first call: %s", a)
	}
	if a := get(t, c.url(t, "8081")+"/orders", key); a.status != http.StatusForbidden {
		t.Errorf("second call: %s", a)
	}
}

// liveEdit checks that a limit saved on the dashboard applies to the next call in every
// environment. Earlier calls still count.
func liveEdit(t *testing.T, c *composition, d *dashboard) {
	t.Helper()
	url, key := c.url(t, "8080")+"/orders", d.key("free")
	for _, edit := range []struct {
		requests int
		statuses []int
	}{
		{2, []int{200, 200, 429, 429}},
		{4, []int{200, 200, 429}},
		{3, []int{429, 429, 429}},
		{1000, []int{200, 200, 200}},
	} {
		d.override(idOf(t, key), edit.requests)
		for i, want := range edit.statuses {
			if a := decidedCall(t, url, key); a.status != want {
				t.Errorf("call %d after the edit to %d an hour: want %d, got %s", i+1, edit.requests, want, a)
			}
		}
	}
}

func idOf(t *testing.T, key string) string {
	t.Helper()
	secret, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	return secret.ID()
}
