//go:build linux

package crashes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// buildAt builds a function as it was at a commit, with the current bundle of web files.
func buildAt(t *testing.T, commit, function string) string {
	t.Helper()
	dir := t.TempDir()
	const script = `git -C ../.. archive "$1" | tar -x -C "$2" && ` +
		`cp -r ../../web/static/dist "$2"/web/static/`
	export := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", commit, dir)
	if out, err := export.CombinedOutput(); err != nil {
		t.Fatalf("export %s: %v\n%s", commit, err, out)
	}
	binary := filepath.Join(dir, "bootstrap")
	command := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", binary,
		"./functions/"+function)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", commit, err, out)
	}
	return binary
}

// startCheckOf starts a check function from this binary.
func startCheckOf(t *testing.T, url, binary string) *lambda.Function {
	t.Helper()
	f, err := lambda.Start(lambda.Config{Name: "check", Binary: binary, Warm: 1,
		Timeout: waiting.Timeout, Env: map[string]string{"VALKEY_URL": url,
			"KEY_PEPPER": string(pepper), "VALKEY_TIMEOUT": "5s"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// The previous release and this one run at the same time. Both check functions read what
// either admin function writes. Both admin functions change the same keys, also at the
// same time. Meanwhile both check functions take from the same windows.
func TestReleaseBefore(t *testing.T) {
	commit := os.Getenv("RELEASE_BEFORE")
	if commit == "" {
		t.Skip("RELEASE_BEFORE=COMMIT runs this release together with that of a commit")
	}
	url := valkeytest.Start(t)
	w := newWorld(t, url, 1, "ask")
	w.envs = append(w.envs, w.start(s3test.Start(t), url, buildAt(t, commit, "admin"), "", 1))
	var checks []*lambda.Function
	for _, binary := range []string{build(t, "check"), buildAt(t, commit, "check")} {
		checks = append(checks, startCheckOf(t, url, binary))
	}
	set, err := w.keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Plans[0].Limits[0].Requests = 1_000_000
	set.Plans = append(set.Plans, policy.Plan{Name: "tight",
		Limits: []limiter.Limit{{Requests: tight, Window: time.Hour}}})
	if _, err := w.keys.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for i, e := range w.envs {
		both.Go(func() { w.checkChangesRead(e, w.envs[1-i], checks, i) })
	}
	both.Go(func() { w.checkOneWindow(checks) })
	both.Wait()
	w.checkAudit()
}

// tight is the limit per hour of a key of the plan tight.
const tight = 40

// checkOneWindow calls with one key through all check functions at once. Together they
// admit exactly as many calls as the key's limit.
func (w *world) checkOneWindow(checks []*lambda.Function) {
	w.t.Helper()
	for round := range 5 {
		n := policy.NewKey{Name: fmt.Sprint("tight ", round), Env: "test", Plan: "tight"}
		_, secret, err := w.keys.Create(w.t.Context(), n, byTest)
		if err != nil {
			w.t.Error(err)
			return
		}
		var passed atomic.Int64
		var callers sync.WaitGroup
		for _, check := range checks {
			callers.Go(func() {
				for range tight {
					status, degraded := call(w.t, check, secret.Reveal())
					if status == http.StatusOK {
						passed.Add(1)
					}
					if degraded || status == http.StatusUnauthorized {
						w.t.Errorf("a valid key: %d, degraded %v", status, degraded)
					}
				}
			})
		}
		callers.Wait()
		if passed.Load() != tight {
			w.t.Errorf("%d of %d calls passed, want %d", passed.Load(), len(checks)*tight, tight)
		}
	}
}

// checkChangesRead makes each kind of change, with the two admin functions in turn. After
// each change it calls through both check functions.
func (w *world) checkChangesRead(one, other *environment, checks []*lambda.Function, number int) {
	w.t.Helper()
	for round := range 5 {
		a := w.send(one, http.MethodPost, "/api/v1/keys", map[string]string{
			"name": fmt.Sprint("key ", number, round), "plan": "free", "env": "test"}, nil)
		var made struct {
			Key    struct{ ID string }
			Secret string
		}
		if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
			w.t.Errorf("create: %d %s", a.status, a.body)
			return
		}
		now := state{Version: 1}
		for step, name := range []string{"override", "rename", "ban", "end", "rotate", "revoke"} {
			if secret := w.step([]*environment{one, other}[step%2], made.Key.ID, name, &now); secret != "" {
				made.Secret = secret
			}
			want := http.StatusOK
			switch {
			case now.Revoked:
				want = http.StatusUnauthorized
			case now.Banned:
				want = http.StatusTooManyRequests
			}
			for i, check := range checks {
				if status, degraded := call(w.t, check, made.Secret); status != want || degraded {
					w.t.Errorf("check %d after %s: %d, degraded %v, want %d", i, name, status, degraded, want)
				}
			}
		}
	}
}

// step makes the named change. It returns the key's new secret, or "" if the secret
// stays.
func (w *world) step(e *environment, id, name string, now *state) (secret string) {
	w.t.Helper()
	var changed struct{ Secret string }
	for _, do := range now.actions(int(now.Version)) {
		if do.name != name {
			continue
		}
		a := w.send(e, do.method, "/api/v1/keys/"+id+do.path, do.body,
			map[string]string{"If-Match": strconv.Quote(strconv.FormatInt(now.Version, 10))})
		if !a.good() {
			w.t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if name == "rotate" && json.Unmarshal(a.body, &changed) != nil {
			w.t.Errorf("rotate: %s", a.body)
		}
		now.Version++
		do.edit(now)
	}
	return changed.Secret
}

// A release without groups, thresholds, calendar weeks and shadow limits runs at the same
// time as this one. It treats them as docs/operations.md and docs/policies.md say.
// Nothing that it does lets this release admit more than a limit.
func TestReleaseBeforeNewLimits(t *testing.T) {
	commit := os.Getenv("RELEASE_BEFORE")
	if commit == "" {
		t.Skip("RELEASE_BEFORE=COMMIT runs this release together with that of a commit")
	}
	if exec.CommandContext(t.Context(), "git", "-C", "../..", "grep", "-q", "PerGroup", commit, "--",
		"internal/policy").Run() == nil {
		t.Skipf("%s has groups", commit)
	}
	url := valkeytest.Start(t)
	n := &newLimits{world: newWorld(t, url, 0, "ask"), secrets: map[string]string{}}
	oldCheck := buildAt(t, commit, "check")
	n.now, n.old = startCheckOf(t, url, build(t, "check")), startCheckOf(t, url, oldCheck)
	n.plan("plain", limiter.Limit{Requests: 1000, Window: time.Hour})
	n.checkGroup(t)
	n.checkThresholds(t)
	older := n.start(s3test.Start(t), url, buildAt(t, commit, "admin"), "", 0)
	n.checkUngrouped(t, older)

	shadow := limiter.Limit{Requests: 2, Window: time.Minute * 90, Shadow: true}
	for name, limits := range map[string][]limiter.Limit{
		"week":   {{Requests: 3, Algorithm: limiter.FixedWindow, Calendar: limiter.Week}},
		"shadow": {{Requests: 4, Window: time.Hour}, shadow},
	} {
		n.plan(name, limits...)
		// The older release denies callers of such a plan and takes nothing.
		n.expect(t, n.old, name, http.StatusTooManyRequests, 5)
		admitted := int(limits[0].Requests)
		n.expect(t, n.now, name, http.StatusOK, admitted)
		n.expect(t, n.now, name, http.StatusTooManyRequests, 2)
		n.expect(t, n.old, name, http.StatusTooManyRequests, 1)
		// The older release admits callers of other plans as before.
		n.expect(t, n.old, "plain", http.StatusOK, 2)
		n.expect(t, n.now, "plain", http.StatusOK, 2)
	}
	late := startCheckOf(t, url, oldCheck)
	for name := range n.secrets {
		n.expect(t, late, name, http.StatusTooManyRequests, 1)
	}
	n.expect(t, n.now, "plain", http.StatusOK, 1)
	a := n.send(older, http.MethodPost, "/api/v1/keys/"+n.member.ID+"/revoke",
		map[string]string{"reason": "a test"}, nil)
	if a.status != http.StatusConflict {
		t.Errorf("revoking a key with the older admin function: got %d %s, want 409", a.status, a.body)
	}
}

// newLimits is a world whose plans have limits that the older release does not know.
type newLimits struct {
	*world
	now, old *lambda.Function
	secrets  map[string]string // of a key of each plan, by the plan's name
	member   policy.Key        // of a group
}

// plan adds a plan and a key of that plan, both with this name.
func (n *newLimits) plan(name string, limits ...limiter.Limit) policy.Key {
	n.t.Helper()
	set, err := n.keys.Set(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	p := policy.Plan{Name: name, Limits: limits}
	if name == "grouped" {
		p.PerGroup = []limiter.Limit{{Requests: 3, Window: time.Hour}}
	}
	set.Plans = append(set.Plans, p)
	if _, err := n.keys.SaveSet(n.t.Context(), *set, byTest); err != nil {
		n.t.Fatal(err)
	}
	k, secret := n.key(name)
	n.secrets[name] = secret.Reveal()
	return k
}

func (n *newLimits) key(plan string) (policy.Key, apikey.Secret) {
	n.t.Helper()
	made := policy.NewKey{Name: plan, Env: "test", Plan: plan}
	if plan == "grouped" {
		made.Group = "customer"
	}
	k, secret, err := n.keys.Create(n.t.Context(), made, byTest)
	if err != nil {
		n.t.Fatal(err)
	}
	return k, secret
}

// expect makes calls with a plan's key; each must get the status want.
func (n *newLimits) expect(t *testing.T, check *lambda.Function, plan string, want, calls int) {
	t.Helper()
	for range calls {
		if status, _ := call(t, check, n.secrets[plan]); status != want {
			t.Errorf("plan %s: %d, want %d", plan, status, want)
		}
	}
}

// checkGroup checks that the older release ignores the limits of a group and does not
// count them. This release admits no more calls than those limits allow.
func (n *newLimits) checkGroup(t *testing.T) {
	t.Helper()
	n.member = n.plan("grouped", limiter.Limit{Requests: 1000, Window: time.Hour})
	_, other := n.key("grouped")
	n.expect(t, n.old, "grouped", http.StatusOK, 5)
	n.expect(t, n.now, "grouped", http.StatusOK, 2)
	n.expect(t, n.old, "grouped", http.StatusOK, 5)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, _ := call(t, n.now, other.Reveal()); status != want {
			t.Errorf("another key of the group: %d, want %d", status, want)
		}
	}
	n.expect(t, n.now, "grouped", http.StatusTooManyRequests, 1)
	n.expect(t, n.old, "grouped", http.StatusOK, 1)
}

// checkThresholds checks that both releases count the same limit with thresholds.
func (n *newLimits) checkThresholds(t *testing.T) {
	t.Helper()
	n.plan("notify", limiter.Limit{Requests: 4, Window: time.Hour,
		Notify: limiter.NewThresholds([]int{50, 100})})
	n.expect(t, n.old, "notify", http.StatusOK, 1)
	n.expect(t, n.now, "notify", http.StatusOK, 2)
	n.expect(t, n.old, "notify", http.StatusOK, 1)
	n.expect(t, n.now, "notify", http.StatusTooManyRequests, 1)
	n.expect(t, n.old, "notify", http.StatusTooManyRequests, 1)
}

// checkUngrouped checks that a change by the older admin function removes the key from
// its group.
func (n *newLimits) checkUngrouped(t *testing.T, older *environment) {
	t.Helper()
	n.step(older, n.member.ID, "ban", &state{Version: n.member.Version})
	k, err := n.keys.Get(t.Context(), n.member.ID)
	if err != nil || k.Version == n.member.Version || k.Group != "" {
		t.Errorf("after a change by the older release: version %d, group %q, %v", k.Version, k.Group, err)
	}
}
