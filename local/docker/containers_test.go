package docker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/testing/waiting"
)

// The composition starts. A key is denied after ten calls on the REST API, and then on the
// HTTP API, an edit acts on the next call, and the audit has it.
func TestContainers(t *testing.T) {
	c := up(t)
	t.Run("hardened", func(t *testing.T) { checkHardened(t, c) })
	d := c.login(t)
	key := checkTwelveCalls(t, c, d)
	secret, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	d.override(secret.ID(), 1000)
	if a := decidedCall(t, c.url(t, "8080")+"/orders", key); a.status != http.StatusOK ||
		!strings.Contains(a.header.Get("RateLimit-Policy"), "q=1000") {
		t.Errorf("a call after the edit: %s", a)
	}
	if a := d.send(http.MethodGet, "/audit?subject="+secret.ID(), nil); a.status != http.StatusOK ||
		!strings.Contains(a.body, "a test") || !strings.Contains(a.body, "1,000 per hour") {
		t.Errorf("the audit: %s", a)
	}
}

var demoKey = regexp.MustCompile(`key free +(tg_demo_\w+)`)

// The image alone is a first try: it shows a key, whose eleventh call is denied.
func TestImage(t *testing.T) {
	needDocker(t)
	id := docker(t, "run", "--detach", "--publish", "127.0.0.1::8080", "tidegate")
	t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", id) })
	var key []string
	waiting.Until(t, "the log shows a key, and the image is healthy", func() bool {
		key = demoKey.FindStringSubmatch(docker(t, "logs", id))
		return key != nil && docker(t, "inspect", "--format", "{{.State.Health.Status}}", id) == "healthy"
	})
	address := published(t, id, "8080") + "/hello"
	waiting.Until(t, "10 calls of a window are allowed, and the next is denied", func() bool {
		allowed := 0
		for get(t, address, key[1]).status == http.StatusOK {
			allowed++
		}
		return allowed == 10
	})
}

// checkTwelveCalls makes twelve calls with a new key within its window of 10 s. If the
// machine is too slow, it starts again.
func checkTwelveCalls(t *testing.T, c *composition, d *dashboard) (key string) {
	t.Helper()
	rest, http2 := c.url(t, "8080")+"/orders", c.url(t, "8081")+"/orders"
	var statuses []int
	waiting.Until(t, "12 calls within one window", func() bool {
		key, statuses = d.key("free"), nil
		began, decided := time.Now(), true
		for range 11 {
			a := get(t, rest, key)
			statuses, decided = append(statuses, a.status), decided && !a.degraded()
		}
		statuses = append(statuses, get(t, http2, key).status)
		return decided && time.Since(began) < 9*time.Second
	})
	if want := append(slices.Repeat([]int{http.StatusOK}, 10), http.StatusTooManyRequests,
		http.StatusForbidden); !slices.Equal(statuses, want) {
		t.Errorf("statuses %v, want %v", statuses, want)
	}
	return key
}

// checkHardened checks that no container can change its image, gain rights or run as
// root. Only Tidegate publishes ports, and only to this machine.
func checkHardened(t *testing.T, c *composition) {
	t.Helper()
	const format = "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} " +
		"{{.HostConfig.Memory}} user={{.Config.User}} " +
		"{{range .HostConfig.PortBindings}}{{range .}}{{.HostIp}} {{end}}{{end}}"
	for service := range c.ids {
		got := docker(t, "inspect", "--format", format, c.ids[service])
		published := strings.Count(got, "127.0.0.1")
		if !strings.HasPrefix(got, "true [ALL] [no-new-privileges:true] ") ||
			strings.Contains(got, "] 0 user=") || strings.Contains(got, "user= ") ||
			strings.Contains(got, "user=0") || strings.Contains(got, "0.0.0.0") ||
			published != map[bool]int{true: 4}[service == "tidegate"] {
			t.Errorf("%s: %s", service, got)
		}
	}
}

// answer is the response that a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %s", a.status, a.header, a.body) }

// degraded reports whether the call was decided without Valkey, as an environment without
// a connection decides. A denial's problem type says so.
func (a answer) degraded() bool {
	var body struct {
		Authorizer map[string]any
		Type       string
	}
	_ = json.Unmarshal([]byte(a.body), &body) // any other body gives the zero value
	return fmt.Sprint(body.Authorizer["degraded"]) == "true" ||
		strings.HasSuffix(body.Type, "#temporary-reduced-capacity")
}

// client keeps no connections.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	Timeout:       40 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	a, err := send(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// decidedCall calls until Valkey decides.
func decidedCall(t *testing.T, url, key string) (a answer) {
	t.Helper()
	waiting.Until(t, "a call that Valkey decides", func() bool {
		a = get(t, url, key)
		return !a.degraded()
	})
	return a
}
