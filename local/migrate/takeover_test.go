//go:build unix

package migrate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/tier"
	"tidegate/local/echo"
	"tidegate/local/gateway"
)

// methodsOfAPI are 40 methods of an API that is taken over.
func methodsOfAPI() []string {
	var all []string
	for i := range 20 {
		path := fmt.Sprintf("/things%d/1", i)
		all = append(all, http.MethodGet+" "+path, http.MethodPost+" "+path)
	}
	return all
}

// takeover is an API whose switched methods have the authorizer. The others reach the
// backend without it.
type takeover struct {
	*deployment
	before, after http.Handler
	switched      map[string]bool
	calls         int
}

// status makes a call with a key's value and returns its status.
func (o *takeover) status(t *testing.T, method, value string) int {
	t.Helper()
	verb, path, _ := strings.Cut(method, " ")
	r := httptest.NewRequestWithContext(t.Context(), verb, path, http.NoBody)
	r.Header.Set("X-Api-Key", value)
	w := httptest.NewRecorder()
	o.calls++
	if o.switched[method] {
		o.after.ServeHTTP(w, r)
	} else {
		o.before.ServeHTTP(w, r)
	}
	return w.Code
}

// setShadow puts the limits of one plan, or of all for the name "", into shadow or enforces
// them.
func (o *takeover) setShadow(t *testing.T, plan string, shadow bool) {
	t.Helper()
	registrytest.Save(t, o.keys, registrytest.Edit, func(set *policy.Set) {
		for i := range set.Plans {
			if plan == "" || set.Plans[i].Name == plan {
				for j := range set.Plans[i].Limits {
					set.Plans[i].Limits[j].Shadow = shadow
				}
			}
		}
	})
}

// The steps of docs/migrate.md work on an API of 40 methods with 300 keys in six usage
// plans: import, shadow, one method after the other, enforce one plan after the other, and
// back. No good call fails until its plan is enforced, and none after the way back.
func TestTakeover(t *testing.T) {
	tier.Two(t, "takes over 300 keys")
	began := time.Now()
	o := &takeover{deployment: deploy(t, "true"), switched: map[string]bool{}}
	folder, apis := madeExport(t, 6, 300)
	got := o.migrate(t, done, "-from", folder, "-shadow", "-apply")
	if !strings.Contains(got, "Imported 300 keys") {
		t.Fatalf("import: got %s", got)
	}
	check := o.function(t, "check", map[string]string{"FOREIGN_KEYS": "true", "VALKEY_TIMEOUT": "5s"})
	o.before = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	o.after = &gateway.REST{Authorizer: check, Integration: echo.Backend{}, APIID: "api0"}
	var values []string // of the keys that open the API, which two plans have
	for value, api := range apis {
		if api == "api0" {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	answer, err := check.Invoke(t.Context(), fmt.Appendf(nil, `{"type":"REQUEST","path":"/",
		"methodArn":"arn:aws:execute-api:us-east-1:123456789012:api0/ESTestInvoke-stage/GET/",
		"headers":{"x-api-key":%q},"requestContext":{"stage":"test-invoke-stage",
		"identity":{"sourceIp":"test-invoke-source-ip"}}}`, values[0]))
	if err != nil || !strings.Contains(string(answer), `"Allow"`) ||
		!strings.Contains(string(answer), `"plan"`) {
		t.Errorf("test-invoke-authorizer: got %s, %v", answer, err)
	}
	for i, method := range methodsOfAPI() {
		o.switched[method] = true
		for range 2 { // 80 calls by 5 keys, of which each may make 5
			if got := o.status(t, method, values[i%5]); got != http.StatusOK {
				t.Fatalf("%s in shadow: got %d, want 200", method, got)
			}
		}
	}
	over := func(value string) bool { return o.status(t, "GET /things0/1", value) != http.StatusOK }
	o.setShadow(t, "Plan 0", false)
	denied := 0
	for _, value := range values[:5] {
		if over(value) {
			denied++
		}
	}
	o.setShadow(t, "Plan 3", false)
	for _, value := range values[:5] {
		if !over(value) {
			t.Errorf("%s… is over its limit: got it allowed with both plans enforced", value[:3])
		}
	}
	if denied == 5 {
		t.Error("got all keys denied with one of two plans enforced")
	}
	if over(values[10]) {
		t.Error("got a key denied that had made no call")
	}
	o.setShadow(t, "", true)
	clear(o.switched)
	for _, method := range methodsOfAPI() {
		if got := o.status(t, method, values[0]); got != http.StatusOK {
			t.Errorf("%s after the way back: got %d, want 200", method, got)
		}
	}
	t.Logf("took over 40 methods and 300 keys in %s: 1 import, 4 edits of the policy, %d calls",
		time.Since(began).Round(time.Millisecond), o.calls)
}
