//go:build linux

package crashes

import (
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/lambda"
)

// A release without groups, thresholds, calendar weeks and shadow limits runs at the same
// time as this one. It treats them as docs/operations.md and docs/policies.md say.
// Nothing that it does lets this release admit more than a limit.
func TestReleaseBeforeNewLimits(t *testing.T) {
	commit := os.Getenv("RELEASE_BEFORE")
	if commit == "" {
		t.Skip("RELEASE_BEFORE=COMMIT runs this release with the one of a commit")
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
		t.Errorf("the older admin function revokes a key: %d %s", a.status, a.body)
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
