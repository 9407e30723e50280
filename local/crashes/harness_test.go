//go:build linux

package crashes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
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
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/waiting"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
	"tidegate/web/static"
)

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// world is a Valkey, an S3 server, and environments of the admin function that use both.
type world struct {
	t       *testing.T
	client  valkey.Client
	journal *journal.Journal
	keys    *registry.Store
	token   string
	envs    []*environment
}

// environment is one execution environment of the built function, and what comes after it
// was killed.
type environment struct {
	gates
	binary string // a copy of its own, by which its process is found
	url    string
	http   http.Client
}

// newWorld starts a world on a Valkey. restore is JOURNAL_RESTORE.
func newWorld(t *testing.T, url string, environments int, restore string) *world {
	t.Helper()
	kept := s3test.Start(t)
	client := dial(t, url)
	opened, err := journal.OpenStore(kept.Address())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: client, keys: registry.NewStore(client, pepper)}
	w.journal = journal.New(opened, client, audit.NewKey(pepper), false, slog.New(slog.DiscardHandler))
	w.keys.Audit().UseJournal(w.journal)
	tokens := token.NewStore(client, pepper)
	tokens.Audit().UseJournal(w.journal)
	plan := policy.Plan{Name: "free", Limits: []limiter.Limit{{Requests: 2, Window: time.Hour}}}
	if _, err := w.keys.SaveSet(t.Context(), policy.Set{Plans: []policy.Plan{plan}}, byTest); err != nil {
		t.Fatal(err)
	}
	_, secret, err := tokens.Create(t.Context(), token.New{Name: "a test", Scope: token.Write,
		Expires: time.Now().Add(24 * time.Hour), By: byTest.By})
	if err != nil {
		t.Fatal(err)
	}
	w.token = "Bearer " + secret.Reveal()
	binary := build(t, "admin")
	for i := range environments {
		w.envs = append(w.envs, w.start(kept, url, binary, restore, i))
	}
	return w
}

func dial(t *testing.T, url string) valkey.Client {
	t.Helper()
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: waiting.Patience, Write: waiting.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// build builds a function.
func build(t *testing.T, function string) string {
	t.Helper()
	_, err := static.Load()
	browsertest.Need(t, err, "make it: ./scripts/build -host")
	return built.Program(t, "tidegate/functions/"+function)
}

func (w *world) start(kept *s3test.Server, valkeyURL, binary, restore string, number int) *environment {
	t := w.t
	t.Helper()
	e := &environment{binary: fmt.Sprint(binary, number), http: http.Client{Timeout: waiting.Patience}}
	if err := os.Link(binary, e.binary); err != nil {
		t.Fatal(err)
	}
	e.end = e.kill
	bucket, endpoint, _ := strings.Cut(kept.Address(), "endpoint=")
	variables := map[string]string{
		"VALKEY_URL": valkeyURL, "KEY_PEPPER": string(pepper),
		"ADMIN_USER": "ada", "ADMIN_PASSWORD": "a password of this test",
		"JOURNAL": bucket + "endpoint=" + e.startS3(t, endpoint), "JOURNAL_RESTORE": restore,
		"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
		"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	if !strings.Contains(valkeyURL, "cluster") {
		variables["VALKEY_URL"] = e.startValkey(t, valkeyURL)
	}
	log := &lockedBuffer{}
	function, err := lambda.Start(lambda.Config{Name: "admin", Binary: e.binary, Env: variables,
		Timeout: 30 * time.Second, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		function.Close()
		if t.Failed() {
			t.Logf("environment %d wrote:\n%s", number, log.tail())
		}
	})
	server := httptest.NewServer(&gateway.HTTP{Integration: function})
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// kill ends the environment's process at once, whatever it does.
func (e *environment) kill() {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if path, err := os.Readlink(link); err != nil || path != e.binary {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// answer is what a client is told.
type answer struct {
	status int
	body   []byte
}

func (a answer) good() bool { return a.status >= 200 && a.status < 300 }

// send asks the environment's API. A status of 0 means that there was no answer.
func (w *world) send(e *environment, method, path string, body any, header map[string]string) answer {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(w.t.Context()), method, e.url+path,
		bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{"Authorization": w.token, "Content-Type": "application/json"}
	maps.Copy(all, header)
	for name, value := range all {
		r.Header.Set(name, value)
	}
	response, err := e.http.Do(r)
	if err != nil {
		return answer{}
	}
	defer func() { _ = response.Body.Close() }() // it was read
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}
	}
	return answer{response.StatusCode, read}
}

// ready waits until the environment answers, and starts it when it does not run.
func (w *world) ready(e *environment) {
	w.t.Helper()
	waiting.Until(w.t, "the environment answers", func() bool {
		return w.send(e, http.MethodGet, "/api/v1/journal", nil, nil).good()
	})
}

// restore brings back what Valkey lost: by a start of the function, or as
// ./scripts/restore does. What a start has no time for, the other way does.
func (w *world) restore(byItself bool) {
	w.t.Helper()
	for _, e := range w.envs {
		e.kill()
	}
	if byItself {
		w.send(w.envs[0], http.MethodGet, "/healthz", nil, nil)
	}
	if _, err := w.journal.RestoreAll(w.t.Context(), w.keys, journal.Options{}, nil, nil); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.envs {
		w.ready(e)
	}
}

// do sends Valkey a command that only a test may.
func (w *world) do(words ...string) {
	w.t.Helper()
	if err := w.client.Do(w.t.Context(), w.client.B().Arbitrary(words...).Build()).Error(); err != nil {
		w.t.Fatal(err)
	}
}

// lockedBuffer keeps the newest lines of a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	const most = 64 << 10
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text = append(b.text, p...); len(b.text) > 2*most {
		b.text = append([]byte(nil), b.text[len(b.text)-most:]...)
	}
	return len(p), nil
}

func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
