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

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
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
	f, err := lambda.Start(lambda.Config{Name: "check", Binary: binary, Warm: 1, Concurrency: 8,
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
	registrytest.Save(t, w.keys, byTest, func(set *policy.Set) {
		set.Plans[0].Limits[0].Requests = 1_000_000
		set.Plans = append(set.Plans, policy.Plan{Name: "tight",
			Limits: []limiter.Limit{{Requests: tight, Window: time.Hour}}})
	})
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
