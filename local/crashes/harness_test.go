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
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
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
	byTest = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// world is a Valkey, an S3 server, and environments of the admin function that use both.
type world struct {
	t       *testing.T
	client  valkey.Client
	journal *journal.Journal
	keys    *registry.Store
	tokens  *token.Store
	token   string
	envs    []*environment
}

// environment is one execution environment of the built function, in its own process
// behind its gates. After kill, the next request starts a new process in its place.
type environment struct {
	*gates
	binary string // this environment's copy; kill finds the process by it
	url    string
}

// httpClient makes the requests of the tests.
var httpClient = &http.Client{Timeout: waiting.Timeout}

// newWorld starts a world of the built function on a Valkey and an S3 server. restore is
// JOURNAL_RESTORE.
func newWorld(t *testing.T, url string, environments int, restore string) *world {
	t.Helper()
	s3 := s3test.Start(t)
	w := fill(t, url, openStore(t, s3.Address()))
	binary := build(t, "admin")
	for i := range environments {
		w.envs = append(w.envs, w.start(s3, url, binary, restore, i))
	}
	return w
}

func openStore(t *testing.T, address string) journal.Store {
	t.Helper()
	opened, err := objects.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// fill returns a world without environments, and stores a plan and a machine token.
func fill(t *testing.T, url string, journalStore journal.Store) *world {
	t.Helper()
	client := dial(t, url)
	w := &world{t: t, client: client, keys: registry.NewStore(client, pepper),
		tokens: token.NewStore(client, pepper)}
	w.journal = journal.New(journalStore, client, audit.NewKey(pepper), false, slog.New(slog.DiscardHandler))
	w.keys.Audit().UseJournal(w.journal)
	w.tokens.Audit().UseJournal(w.journal)
	plan := policy.Plan{Name: "free", Limits: registrytest.Limits("2 per hour")}
	if _, err := w.keys.SaveSet(t.Context(), policy.Set{Plans: []policy.Plan{plan}}, byTest); err != nil {
		t.Fatal(err)
	}
	_, secret, err := w.makeToken(token.Write)
	if err != nil {
		t.Fatal(err)
	}
	w.token = "Bearer " + secret.Reveal()
	return w
}

func (w *world) makeToken(scope token.Scope) (token.Token, apikey.Secret, error) {
	return w.tokens.Create(w.t.Context(), token.New{Name: "a test", Scope: scope,
		Expires: time.Now().Add(24 * time.Hour), By: byTest.By})
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

// build builds a function.
func build(t *testing.T, function string) string {
	t.Helper()
	return built.Program(t, "tidegate/functions/"+function)
}

func (w *world) start(s3 *s3test.Server, valkeyURL, binary, restore string, number int) *environment {
	t := w.t
	t.Helper()
	e := &environment{gates: &gates{s3: s3}, binary: fmt.Sprint(binary, number)}
	if err := os.Link(binary, e.binary); err != nil {
		t.Fatal(err)
	}
	e.store = valkeytest.StartProxy(t, s3.Listener.Addr().String(), nil)
	e.store.EndClient(e.pass, e.kill)
	variables := map[string]string{
		"VALKEY_URL": valkeyURL, "KEY_PEPPER": string(pepper),
		"ADMIN_USER": "ada", "ADMIN_PASSWORD": "a password of this test",
		"JOURNAL": s3.AddressAt("http://" + e.store.Address()), "JOURNAL_RESTORE": restore,
		"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
		"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	if !strings.Contains(valkeyURL, "cluster") {
		proxy := valkeytest.StartProxy(t, valkeyURL, nil)
		proxy.EndClient(e.pass, e.kill)
		variables["VALKEY_URL"] = proxy.URL()
	}
	log := &waiting.Buffer{}
	function, err := lambda.Start(lambda.Config{Name: "admin", Binary: e.binary, Env: variables,
		Concurrency: 4, Timeout: 30 * time.Second, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		function.Close()
		if t.Failed() {
			t.Logf("environment %d wrote:\n%s", number, log)
		}
	})
	server := httptest.NewServer(&gateway.HTTP{Integration: function})
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// kill ends the process at once with SIGKILL.
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

// answer is the response that a client gets.
type answer struct {
	status int
	body   []byte
}

func (a answer) good() bool { return a.status >= 200 && a.status < 300 }

// send calls the environment's API. A status of 0 means that there was no answer.
func (w *world) send(e *environment, method, path string, body any, header map[string]string) answer {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(w.t.Context()), method,
		e.url+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{"Authorization": w.token, "Content-Type": "application/json"}
	maps.Copy(all, header)
	for name, value := range all {
		r.Header.Set(name, value)
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
	return answer{response.StatusCode, read}
}

// ready waits until the environment answers. Its request starts the function if it does
// not run.
func (w *world) ready(e *environment) {
	w.t.Helper()
	waiting.Until(w.t, "the environment answers", func() bool {
		return w.send(e, http.MethodGet, "/api/v1/journal", nil, nil).good()
	})
}

// restore restores the changes that Valkey lost. If byItself is set, the start of the
// function restores first. The rest is restored as by ./scripts/restore.
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

// do sends Valkey a command, and fails the test on an error.
func (w *world) do(words ...string) {
	w.t.Helper()
	if err := w.client.Do(w.t.Context(), w.client.B().Arbitrary(words...).Build()).Error(); err != nil {
		w.t.Fatal(err)
	}
}

// checkAudit fails the test unless the audit's chains are whole.
func (w *world) checkAudit() {
	w.t.Helper()
	if v, err := w.keys.Audit().Verify(w.t.Context()); err != nil || !v.Good() {
		w.t.Errorf("the audit: %+v, %v", v, err)
	}
}

// processOf returns the process id of a server.
func processOf(t *testing.T, url string) (pid int) {
	t.Helper()
	pid, err := strconv.Atoi(infoField(t, url, "server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// infoField returns one field of a server's INFO, or "" if it is missing.
func infoField(t *testing.T, url, section, field string) string {
	t.Helper()
	for line := range strings.Lines(valkeytest.Ask(t, url, "INFO", section)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			return text
		}
	}
	return ""
}
