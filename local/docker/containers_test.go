package docker

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/testing/waiting"
)

func TestContainers(t *testing.T) {
	c := up(t)
	t.Run("demo key", func(t *testing.T) { demoKey(t, c) })
	t.Run("bad credentials", func(t *testing.T) { badCredentials(t, c) })
	t.Run("hardened", func(t *testing.T) { checkHardened(t, c) })
	d := c.login(t)
	t.Run("context at the backend", func(t *testing.T) { contextAtTheBackend(t, c, d) })
	t.Run("first denial", func(t *testing.T) { firstDenial(t, c, d) })
	t.Run("denial on the HTTP API", func(t *testing.T) { denialOnTheHTTPAPI(t, c, d) })
	t.Run("live edit", func(t *testing.T) { liveEdit(t, c, d) })
	w := c.callers(t, d)
	// These tests stop at the first failure, since each needs what the one before leaves
	// intact.
	_ = t.Run("primary lost", func(t *testing.T) { primaryLost(t, w) }) &&
		t.Run("one function cut off", func(t *testing.T) { functionCutOff(t, w) }) &&
		t.Run("one function refused", func(t *testing.T) { functionRefused(t, w) }) &&
		t.Run("rolling restart", func(t *testing.T) { rollingRestart(t, w) })
}

// demoKey checks that the demo key that the composition prints is valid.
func demoKey(t *testing.T, c *composition) {
	t.Helper()
	if a := decidedCall(t, c.url(t, "8080")+"/hello", c.keys["pro"]); a.status != http.StatusOK ||
		a.context()["plan"] != "pro" {
		t.Errorf("the demo key of plan pro: %s", a)
	}
}

// checkHardened checks that no container can change its image, gain rights or run as
// root. Only the gateway publishes ports, and only to this machine.
func checkHardened(t *testing.T, c *composition) {
	t.Helper()
	const format = "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} " +
		"{{.HostConfig.Memory}} user={{.Config.User}} " +
		"{{range .HostConfig.PortBindings}}{{range .}}{{.HostIp}} {{end}}{{end}}"
	for service := range c.ids {
		got := c.docker(t, "inspect", "--format", format, c.ids[service])
		published := strings.Count(got, "127.0.0.1")
		if !strings.HasPrefix(got, "true [ALL] [no-new-privileges:true] ") ||
			strings.Contains(got, "] 0 user=") || strings.Contains(got, "user= ") ||
			strings.Contains(got, "user=0") || strings.Contains(got, "0.0.0.0") ||
			published != map[bool]int{true: 3}[service == "gateway"] {
			t.Errorf("%s: %s", service, got)
		}
	}
}

// world is a composition with callers whose plans decide differently in an outage. The
// records of open and closed are on the same node, the victim.
type world struct {
	*composition
	rest, admin                  atomic.Pointer[string]
	open, closed, elsewhere, bad target
	page                         target
	victim                       int
	more                         []target
}

func (w *world) targets() []target {
	return append([]target{w.open, w.closed, w.elsewhere, w.bad, w.page}, w.more...)
}

const plenty = 1_000_000

func (c *composition) callers(t *testing.T, d *dashboard) *world {
	t.Helper()
	w := &world{composition: c}
	w.locate(t)
	d.plan("open", "open", plenty)
	d.plan("closed", "closed", plenty)
	open, known := d.key("open"), []int{http.StatusOK, http.StatusTooManyRequests}
	w.victim = c.primaryOf(t, idOf(t, open), 1)
	w.open = target{"open", open, &w.rest, known}
	w.closed = target{"closed", w.keyWhere(t, d, "closed", func(node int) bool {
		return node == w.victim
	}), &w.rest, known}
	w.elsewhere = target{"elsewhere", w.keyWhere(t, d, "open", func(node int) bool {
		return node != w.victim
	}), &w.rest, known}
	unknown, err := apikey.Generate("live")
	if err != nil {
		t.Fatal(err)
	}
	w.bad = target{"unknown", unknown.Reveal(), &w.rest,
		[]int{http.StatusUnauthorized, http.StatusTooManyRequests}}
	w.page = target{"dashboard", "", &w.admin, []int{http.StatusOK}}
	return w
}

// locate stores the addresses at which the gateway is published.
func (w *world) locate(t *testing.T) {
	t.Helper()
	rest, admin := w.url(t, "8080")+"/orders", w.url(t, "8082")+"/login"
	w.rest.Store(&rest)
	w.admin.Store(&admin)
}

func (w *world) keyWhere(t *testing.T, d *dashboard, plan string, fits func(node int) bool) string {
	t.Helper()
	var key string
	waiting.Until(t, "a key of plan "+plan+" on the wanted node", func() bool {
		key = d.key(plan)
		return fits(w.primaryOf(t, idOf(t, key), 1))
	})
	return key
}

// startLoad starts the load and waits until every environment knows the callers. Denials
// until then do not count: an environment whose first connection takes too long denies a
// caller that it does not know yet.
func (w *world) startLoad(t *testing.T) *load {
	t.Helper()
	l := newLoad(t, w.targets()...)
	waiting.Until(t, "no answer is degraded", l.valkeyDecides)
	l.forgetDenials()
	return l
}

// outage calls breakPart, and waits until the answers show the outage: the open plan
// allows calls without Valkey, and the closed plan denies calls.
func outage(t *testing.T, l *load, breakPart func()) {
	t.Helper()
	before := [2]tally{l.now("open"), l.now("closed")}
	breakPart()
	waiting.Until(t, "answers of an outage", func() bool {
		return l.now("open").degradedAllow > before[0].degradedAllow &&
			l.now("closed").degradedDeny > before[1].degradedDeny
	})
}

// finish waits until no answer is degraded, and ends the load. It fails the test if a
// client saw an error, or if an unknown or revoked key was allowed.
func (w *world) finish(t *testing.T, l *load) {
	t.Helper()
	waiting.Until(t, "no answer is degraded any more", l.valkeyDecides)
	failures := l.end()
	for _, one := range failures[:min(len(failures), 5)] {
		t.Error(one)
	}
	if len(failures) > 5 {
		t.Errorf("and %d more", len(failures)-5)
	}
	for _, each := range w.targets() {
		one := l.now(each.name)
		t.Logf("%-9s %4d calls, %4d allowed; without Valkey %d allowed, %d denied", each.name, one.calls,
			one.allowed, one.degradedAllow, one.degradedDeny)
	}
	if n := l.now("closed").degradedAllow; n > 0 {
		t.Errorf("%d calls of a closed plan were allowed without Valkey", n)
	}
	for _, name := range []string{"unknown", "revoked"} {
		if n := l.now(name).allowed; n > 0 {
			t.Errorf("%d calls of a key that is %s were allowed", n, name)
		}
	}
}

// checkKnownAllowed checks that the caller of the open plan was never denied. Every
// environment had verified the caller; an environment that just started would deny it.
func checkKnownAllowed(t *testing.T, l *load) {
	t.Helper()
	if n := l.now("open").degradedDeny; n > 0 {
		t.Errorf("%d calls of a known caller of an open plan were denied", n)
	}
}

// primaryLost kills a primary. Until its replica serves its callers, their plans decide.
// The primary comes back as a replica.
func primaryLost(t *testing.T, w *world) {
	t.Helper()
	l := w.startLoad(t)
	died := time.Now()
	outage(t, l, func() { w.docker(t, "kill", w.ids[service(w.victim)]) })
	other := w.victim%3 + 1
	waiting.Until(t, "a replica serves the slots", func() bool {
		return w.primaryOf(t, idOf(t, w.open.key), other) > 3
	})
	waiting.Until(t, "no answer is degraded any more", l.valkeyDecides)
	t.Logf("recovered %s after the death of %s", time.Since(died).Round(time.Second/10), service(w.victim))
	w.docker(t, "start", w.ids[service(w.victim)])
	w.awaitCluster(t)
	w.finish(t, l)
	checkKnownAllowed(t, l)
}

// functionCutOff cuts the network between one function and the cluster. The other
// functions are not affected.
func functionCutOff(t *testing.T, w *world) {
	t.Helper()
	l := w.startLoad(t)
	network, proxy := w.project+"_private", w.ids["toxiproxy-1"]
	outage(t, l, func() { w.docker(t, "network", "disconnect", network, proxy) })
	awaitOtherFunctions(t, l)
	w.docker(t, "network", "connect", "--alias", "toxiproxy-1", network, proxy)
	w.finish(t, l)
	checkKnownAllowed(t, l)
}

// functionRefused makes the proxy of one function close and refuse its connections.
func functionRefused(t *testing.T, w *world) {
	t.Helper()
	l := w.startLoad(t)
	outage(t, l, func() { w.proxies(t, "toxiproxy-2", `{"enabled":false}`) })
	awaitOtherFunctions(t, l)
	w.proxies(t, "toxiproxy-2", `{"enabled":true}`)
	w.finish(t, l)
	checkKnownAllowed(t, l)
}

func (w *world) proxies(t *testing.T, proxy, change string) {
	t.Helper()
	for node := range nodes {
		w.exec(t, proxy, "/local", "toxiproxy", "POST", "/proxies/"+service(node+1), change)
	}
}

// awaitOtherFunctions waits until calls of the closed plan are allowed. Only functions
// that reach Valkey can allow them.
func awaitOtherFunctions(t *testing.T, l *load) {
	t.Helper()
	before := l.now("closed").allowed
	waiting.Until(t, "answers of the other functions", func() bool {
		return l.now("closed").allowed > before+decidedCalls
	})
}

// rollingRestart restarts each service in turn while clients call. Every call gets its
// answer, except calls while the gateway itself restarts.
func rollingRestart(t *testing.T, w *world) {
	t.Helper()
	l := w.startLoad(t)
	for _, service := range w.services() {
		if service == "gateway" {
			continue
		}
		w.restart(t, service)
		if strings.HasPrefix(service, "valkey-") {
			w.awaitCluster(t)
		}
	}
	w.finish(t, l)
	w.restart(t, "gateway")
	w.locate(t)
	w.finish(t, w.startLoad(t))
}
