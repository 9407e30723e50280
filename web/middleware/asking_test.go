package middleware

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// askingTable is the table of cases that Asking of every language passes.
type askingTable struct {
	Refused map[string]string // headers of every refusal
	Cases   []struct {
		Name, Door   string
		Refund, Open bool
		AllowOrigins []string
		Calls        []askingCall
	}
}

type askingCall struct {
	As                   map[string]any // what the backend's caller returns
	Method, Path, Origin string
	Serve                struct {
		Status  int
		Settles Costs
		Fails   bool
	}
	Want struct {
		Status    int
		Served    bool
		RateLimit []string
		Headers   map[string]string // beside those of every refusal; "" takes one away
		Body      map[string]any    // members among others
	}
}

// askingDoors are a check function that listens, with the policy of the table, and an
// address that takes connections and never answers.
type askingDoors struct{ url, hangs, key, unknown string }

func startDoors(t *testing.T) askingDoors {
	t.Helper()
	const pepper = "pepper!!pepper!!pepper!!pepper!!"
	valkey := valkeytest.Start(t)
	store := registrytest.New(t, storetest.Connect(t, valkey), apikey.Pepper(pepper))
	edit := registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
	plan := func(name string, words ...string) policy.Plan {
		return policy.Plan{Name: name, Limits: registrytest.Limits(words...)}
	}
	registrytest.Put(t, store, edit, policy.Set{
		Plans: []policy.Plan{plan("two", "2 per hour"), plan("many", "1,000 per hour"),
			plan("single", "1 at once", "9 per hour"), plan("tokens", "500 input per hour"),
			plan("reports", "1 per hour, on GET /reports/{name}")},
		Deny: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
		Routes: []limits.Route{{Name: "chat", Match: []route.Pattern{{Method: "POST", Path: "/chat"}},
			Cost: limits.Costs{Units: map[string]int64{"input": 300}}, Settle: true}},
	})
	_, secret := registrytest.Create(t, store, edit, policy.NewKey{Name: "one", Env: "test", Plan: "many"})
	unknown, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	silent := listen(t)
	d := askingDoors{hangs: "http://" + silent.Addr().String(), key: secret.Reveal(),
		unknown: unknown.Reveal()}
	d.url = startListening(t, []string{"VALKEY_URL=" + valkey, "KEY_PEPPER=" + pepper, "VALKEY_TIMEOUT=5s"})
	return d
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// startListening starts the built check function with -listen and returns its address.
func startListening(t *testing.T, env []string) string {
	t.Helper()
	var log waiting.Buffer
	command := exec.CommandContext(t.Context(), built.Program(t, "tidegate/functions/check"),
		"-listen", "127.0.0.1:0")
	command.Env, command.Stdout, command.Stderr = env, &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
	port := 0
	waiting.Until(t, "the function listens", func() bool {
		for line := range strings.Lines(log.String()) {
			var said struct{ Port int }
			if json.Unmarshal([]byte(line), &said) == nil && said.Port != 0 {
				port = said.Port
			}
		}
		return port != 0
	})
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// Asking passes the table of cases against the real check function.
func TestAsking(t *testing.T) {
	doors := startDoors(t)
	text, err := os.ReadFile("testdata/asking.json")
	if err != nil {
		t.Fatal(err)
	}
	var table askingTable
	if err := json.Unmarshal(text, &table); err != nil || len(table.Cases) < 15 {
		t.Fatalf("%d cases, %v", len(table.Cases), err)
	}
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			a := &Asking{Door: OnMachine(doors.url, nil), Open: c.Open, AllowOrigins: c.AllowOrigins,
				Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
			switch c.Door {
			case "closed":
				a.Door = OnMachine("http://127.0.0.1:1", nil)
			case "hangs":
				a.Door = OnMachine(doors.hangs, nil)
			}
			if c.Refund {
				a.RefundOn = ServerErrors
			}
			for i, one := range c.Calls {
				one.check(t, i+1, table.Refused, a, doors, "go "+c.Name)
			}
		})
	}
}

// check makes a call and compares its response.
func (c *askingCall) check(t *testing.T, number int, refused map[string]string, a *Asking, doors askingDoors,
	unique string) {
	t.Helper()
	a.Caller = func(*http.Request) (as Call) {
		text, _ := json.Marshal(c.As)
		if err := json.Unmarshal(text, &as); err != nil {
			t.Fatal(err)
		}
		if as.Subject != "" {
			as.Subject = unique + " " + as.Subject
		}
		as.APIKey = strings.NewReplacer("GOOD", doors.key, "UNKNOWN", doors.unknown).Replace(as.APIKey)
		return as
	}
	served := false
	handler := a.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served = true
		d, _ := FromContext(r.Context())
		if c.Serve.Settles != nil {
			if _, err := SettleUnits(r.Context(), c.Serve.Settles); err != nil {
				t.Errorf("call %d: settle: %v", number, err)
			}
		}
		if c.Serve.Fails {
			panic("the handler fails")
		}
		w.Header().Set("Content-Type", "application/json")
		if c.Serve.Status != 0 {
			w.WriteHeader(c.Serve.Status)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"plan": d.Plan, "keyName": d.KeyName,
			"degraded": d.Degraded})
	}))
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() != nil {
				w.Code = http.StatusInternalServerError
			}
		}()
		r := httptest.NewRequest(orElse(c.Method, "GET"), orElse(c.Path, "/"), http.NoBody)
		if c.Origin != "" {
			r.Header.Set("Origin", c.Origin)
		}
		handler.ServeHTTP(w, r)
	}()
	a.Wait()
	if w.Code != c.Want.Status || served != c.Want.Served {
		t.Errorf("call %d: status %d, served %t, want %+v: %s", number, w.Code, served, c.Want, w.Body)
	}
	c.compare(t, number, refused, w)
}

func (c *askingCall) compare(t *testing.T, number int, refused map[string]string,
	w *httptest.ResponseRecorder) {
	t.Helper()
	for _, text := range c.Want.RateLimit {
		if got := w.Header().Get("RateLimit"); !strings.Contains(got, text) {
			t.Errorf("call %d: RateLimit %s has no %s", number, got, text)
		}
	}
	if c.Serve.Fails {
		return
	}
	want := map[string]string{"Content-Type": "application/json"}
	if !c.Want.Served {
		want = maps.Clone(refused)
	}
	maps.Copy(want, c.Want.Headers)
	for _, name := range append(comparedHeaders[2:], "WWW-Authenticate") {
		if got := w.Header().Get(name); got != want[name] && (want[name] != "*" || got == "") {
			t.Errorf("call %d: %s is %q, want %q", number, name, got, want[name])
		}
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("call %d: %v: %s", number, err, w.Body)
	}
	for name, value := range c.Want.Body {
		if !reflect.DeepEqual(body[name], value) {
			t.Errorf("call %d: %s is %v, want %v", number, name, body[name], value)
		}
	}
}

func orElse(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

// A handler behind Asking can stream and take over its connection.
func TestAskingKeepsTheWriter(t *testing.T) {
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"allowed":true,"status":200,"context":{"denied":false}}`)
	}))
	defer door.Close()
	a := &Asking{Door: OnMachine(door.URL, nil),
		Caller: func(*http.Request) Call { return Call{Subject: "a"} }}
	server := httptest.NewServer(a.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = connection.Close()
	})))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v, want the start of a stream", response, err)
	}
	_ = response.Body.Close()
}

// Asking passes the table in Express, Fastify and Lambda handlers of Node.js, and its types
// compile.
func TestAskingNode(t *testing.T) {
	tier.Two(t, "needs npm packages")
	node, err := exec.LookPath("node")
	browsertest.Need(t, err, "install Node.js 20 or newer")
	_, err = os.Stat("node/node_modules/typescript")
	browsertest.Need(t, err, "install it: npm ci --ignore-scripts --prefix web/middleware/node")
	startDoors(t).export(t)
	run(t, "node", node, "--test", "asking.cjs")
	run(t, "node", node, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck",
		"--types", "node", "--module", "nodenext", "example.cts")
}

// Asking passes the table in WSGI, ASGI, Flask, FastAPI and Lambda handlers of Python.
func TestAskingPython(t *testing.T) {
	tier.Two(t, "needs Python packages")
	python, err := pythonWith("fastapi", "flask")
	browsertest.Need(t, err, "install them: scripts/install-test-tools python")
	startDoors(t).export(t)
	run(t, "python", python, "-B", "-m", "unittest", "asking")
}

// pythonWith returns a Python that has the packages: the first on PATH, or Debian's.
func pythonWith(packages ...string) (string, error) {
	var err error
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		program := exec.Command(name, "-c", "import "+strings.Join(packages, ", "))
		if err = program.Run(); err == nil {
			return name, nil
		}
	}
	return "", err
}

// export sets the variables that the tests in other languages read.
func (d askingDoors) export(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"DOOR": d.url, "DOOR_HANGS": d.hangs, "DOOR_KEY": d.key,
		"DOOR_UNKNOWN": d.unknown} {
		t.Setenv(name, value)
	}
}
