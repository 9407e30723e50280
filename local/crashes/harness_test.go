//go:build linux

package crashes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registrytest.Edit
)

// world is a Valkey, a log of changes, and environments of the admin function that use both.
type world struct {
	t      *testing.T
	url    string // of Valkey
	client valkey.Client
	s3     *s3test.Server // nil if the log is in a folder
	log    string         // its address
	keys   *registry.Store
	token  string
	envs   []*environment
}

// environment is one execution environment of the built function, in its own process
// behind its gates. After it is killed, the next request starts a new process.
type environment struct {
	*gates
	*lambda.Function
	binary string // this environment's copy; signal finds the process by it
	url    string
}

// newWorld starts environments of the built function on a Valkey and an S3 server.
func newWorld(t *testing.T, url string, environments int) *world {
	t.Helper()
	s3 := s3test.Start(t)
	return start(t, &world{t: t, url: url, s3: s3, log: s3.Address()}, environments)
}

// newWorldOnDisk starts an environment on a Valkey and a log in a folder.
func newWorldOnDisk(t *testing.T, url string) *world {
	t.Helper()
	return start(t, &world{t: t, url: url, log: filepath.Join(t.TempDir(), "changes")}, 1)
}

func start(t *testing.T, w *world, environments int) *world {
	t.Helper()
	w.client = dial(t, w.url)
	w.keys = w.open(w.log)
	if err := w.keys.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	registrytest.Save(t, w.keys, byTest, func(s *policy.Set) {
		for _, name := range []policy.Degraded{policy.Open, policy.Closed} {
			s.Plans = append(s.Plans, policy.Plan{Name: string(name), Degraded: name,
				Limits: registrytest.Limits("1,000,000 per hour")})
		}
	})
	_, secret, err := token.NewStore(w.keys, w.client, pepper).Create(t.Context(), token.New{Name: "a test",
		Scope: token.Write, Expires: time.Now().Add(24 * time.Hour), By: byTest.By})
	if err != nil {
		t.Fatal(err)
	}
	w.token = "Bearer " + secret.Reveal()
	binary := built.Program(t, "tidegate/functions/admin")
	for i := range environments {
		w.envs = append(w.envs, w.environment(binary, i))
	}
	return w
}

// open returns the keys and policies of a log.
func (w *world) open(address string) *registry.Store {
	w.t.Helper()
	log, err := objects.Open(address)
	if err != nil {
		w.t.Fatal(err)
	}
	return registry.New(w.client, log, pepper)
}

func dial(t *testing.T, url string) valkey.Client {
	t.Helper()
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: waiting.Timeout, Write: waiting.Timeout, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (w *world) environment(binary string, number int) *environment {
	t := w.t
	t.Helper()
	e := &environment{gates: &gates{s3: w.s3}, binary: fmt.Sprint(binary, number)}
	if err := os.Link(binary, e.binary); err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{
		"VALKEY_URL": w.url, "KEY_PEPPER": string(pepper), "CHANGES_LOG": w.log,
		"ADMIN_USER": "ada", "ADMIN_PASSWORD": "a password of this test",
		"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
		"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	if w.s3 != nil {
		e.store = valkeytest.StartProxy(t, w.s3.Listener.Addr().String(), nil)
		e.store.EndClient(e.pass, e.hit)
		variables["CHANGES_LOG"] = w.s3.AddressAt("http://" + e.store.Address())
	}
	if !strings.Contains(w.url, "cluster") {
		proxy := valkeytest.StartProxy(t, w.url, nil)
		proxy.EndClient(e.pass, e.hit)
		variables["VALKEY_URL"] = proxy.URL()
	}
	log := &waiting.Buffer{}
	var err error
	e.Function, err = lambda.Start(lambda.Config{Name: "admin", Binary: e.binary, Env: variables,
		Concurrency: 4, Timeout: 30 * time.Second, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.signal(syscall.SIGCONT)
		e.Close()
		if t.Failed() {
			t.Logf("environment %d wrote:\n%s", number, log)
		}
	})
	e.gates.signal = e.signal
	server := httptest.NewServer(&gateway.HTTP{Integration: e.Function})
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// signal sends a signal to the environment's processes.
func (e *environment) signal(s syscall.Signal) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if path, err := os.Readlink(link); err != nil || path != e.binary {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err == nil {
			_ = syscall.Kill(pid, s) // it may have ended
		}
	}
}

// killPoint is a request of an environment to Valkey or to the store of the log at which
// the environment ends or stops: before the request arrives, or once its answer arrives.
type killPoint struct {
	request int // from 1; 0 for never
	after   bool
	signal  syscall.Signal
}

// gates are the proxies between one environment and the servers that it uses.
type gates struct {
	s3     *s3test.Server
	store  *valkeytest.Proxy // to s3
	signal func(syscall.Signal)

	mu       sync.Mutex
	point    killPoint
	requests int           // since the last arm
	reached  chan struct{} // closed at the point
}

// storeFaults are the faults of the log's store. The zero value has none.
type storeFaults struct {
	refused int           // answers that are 503 SlowDown
	lost    int           // requests that take effect but get no answer
	away    bool          // the store does not answer
	delay   time.Duration // of each answer
}

// arm makes the environment end or stop at a killPoint; the zero killPoint means never. The
// channel is closed at the point.
func (g *gates) arm(m killPoint) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.requests, g.reached = m, 0, make(chan struct{})
	return g.reached
}

// setFaults sets the faults of the log's store; the zero value ends them. Other
// environments may get the refusals.
func (g *gates) setFaults(f storeFaults) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s3.Undo()
	g.s3.SlowDown(f.refused)
	g.store.DropReplies("", f.lost)
	g.store.SetFault(valkeytest.Fault{Refuse: f.away, Delay: f.delay})
}

// pass counts a request, and reports whether the environment ends before or after it.
func (g *gates) pass() (before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	hit := g.point.request == g.requests
	return hit && !g.point.after, hit && g.point.after
}

// hit ends or stops the environment, unless it is too late.
func (g *gates) hit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.point.request > 0 {
		g.signal(g.point.signal)
		close(g.reached)
		g.point = killPoint{}
	}
}

// answer is the response that a client gets.
type answer struct {
	status int
	note   string
	body   []byte
}

// good reports whether a change is acknowledged.
func (a answer) good() bool { return a.status >= 200 && a.status < 300 }

func (a answer) String() string { return fmt.Sprintf("%d %s %s", a.status, a.note, a.body) }

// httpClient makes the requests of the tests.
var httpClient = &http.Client{Timeout: waiting.Timeout}

// send calls the environment's API. Version 0 is any version. A status of 0 means that
// there was no answer.
func (w *world) send(e *environment, method, path string, body any, version int64) answer {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(w.t.Context()), method,
		e.url+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", w.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("If-Match", "*")
	if version > 0 {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
	}
	response, err := httpClient.Do(r)
	if err != nil {
		return answer{}
	}
	defer func() { _ = response.Body.Close() }() // it was read
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}
	}
	return answer{response.StatusCode, response.Header.Get(server.NoteHeader), read}
}

// rename renames a key.
func (w *world) rename(c caller) answer {
	w.t.Helper()
	return w.send(w.envs[0], http.MethodPatch, "/keys/"+c.ID, map[string]any{"name": "renamed"}, 0)
}

// wants fails the test unless an answer has a status, and a text in its note or its body.
func (w *world) wants(a answer, status int, text string) {
	w.t.Helper()
	if a.status != status || !strings.Contains(a.note+string(a.body), text) {
		w.t.Errorf("got %s, want %d %s", a, status, text)
	}
}

// ready waits until the environment answers. Its request starts the function if it does
// not run.
func (w *world) ready(e *environment) {
	w.t.Helper()
	waiting.Until(w.t, "the environment answers", func() bool {
		return w.send(e, http.MethodGet, "/log", nil, 0).good()
	})
}

// minute sends the environment the event of each minute.
func (e *environment) minute(ctx context.Context) error {
	_, err := e.Invoke(ctx, []byte(`{"tidegate":"minute"}`))
	return err
}

// nextMinute waits until an event of a minute finds nothing left to do: positions are equal,
// and no marks are left.
func (w *world) nextMinute() {
	w.t.Helper()
	waiting.Until(w.t, "the minute succeeds", func() bool {
		return w.envs[0].minute(w.t.Context()) == nil
	})
	w.wantWhole(w.keys)
}

// wantWhole fails the test unless Valkey is the view of the whole log.
func (w *world) wantWhole(keys *registry.Store) {
	w.t.Helper()
	n, err := keys.Log().Verify(w.t.Context())
	if err != nil {
		w.t.Errorf("the log: %v", err)
	}
	s, err := keys.Log().Status(w.t.Context())
	if err != nil || s.Newest != n || s.Lowest != n || s.Behind+s.Away+s.Marks > 0 {
		w.t.Errorf("got %+v, %v, want all at change %d", s, err, n)
	}
}

// do sends Valkey a command, and fails the test on an error.
func (w *world) do(words ...string) {
	w.t.Helper()
	if err := w.client.Do(w.t.Context(), w.client.B().Arbitrary(words...).Build()).Error(); err != nil {
		w.t.Fatal(err)
	}
}
