package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/telemetry"
	"tidegate/internal/testing/registrytest"
)

// denialCall is a call through API Gateway and its expected denial. The
// cause is 0 if the call is allowed or has no valid secret: then there is no entry.
type denialCall struct {
	key            string // name of a key in denialWorld; or a colon and a key value
	method, path   string
	resource, addr string
	cause          cause.Cause
	limit, route   string
	pattern        string // the path as recorded
}

// denialWorld is an authorizer and keys in every state.
type denialWorld struct {
	*function
	authorizer *authorizer.Authorizer
	values     map[string]string // secrets by the name of the key
	ids        map[string]string
}

func perHour(n int) []limits.Limit { return registrytest.Limits(fmt.Sprint(n, " per hour")) }

func newDenialWorld(t *testing.T) *denialWorld {
	t.Helper()
	w := &denialWorld{function: newFunction(t, policy.Plan{Name: "two", Limits: perHour(2)},
		policy.Plan{Name: "many", Limits: perHour(1000)},
		policy.Plan{Name: "team", Limits: registrytest.Limits("1,000 per hour", "1 per hour, each group")}),
		values: map[string]string{}, ids: map[string]string{}}
	w.edit(t, func(s *policy.Set) {
		s.Routes = []limits.Route{registrytest.Route("search", 1, "/search/{term}"),
			registrytest.Route("items", 1, "/items/{item}")}
		s.Limits = registrytest.Limits("1 per hour, on search, each caller",
			"1 per hour, on GET /address, each address", "1 per hour, on GET /together, together",
			"1 per hour, on items, each {item}")
		s.Deny = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	})
	w.authorizer = authorizer.New(w.checker, resolver(t), authorizer.Answers{Format: authorizer.Simple,
		Denial: authorizer.Deny}, w.checker.log)
	w.authorizer.Refused = w.Refused
	for _, name := range []string{"two", "many", "revoked", "rotated", "banned", "team"} {
		w.group = map[string]string{"team": "acme"}[name]
		secret := w.key(t, cmp.Or(map[string]string{"two": "two", "team": "team"}[name], "many"))
		w.values[name], w.ids[name] = secret.Reveal(), secret.ID()
	}
	w.change(t, "revoked", func(id string) error {
		_, err := registrytest.Revoke(t.Context(), w.set, id, tester)
		return err
	})
	w.change(t, "rotated", func(id string) error {
		k, err := w.set.Get(t.Context(), id)
		if err == nil {
			_, _, err = w.set.Rotate(t.Context(), id, k.Version, 0, tester)
		}
		return err
	})
	w.change(t, "banned", func(id string) error {
		_, err := registrytest.Update(t.Context(), w.set, id, registry.KeyBan, tester, func(k *policy.Key) {
			k.Banned = time.Now().Add(time.Hour)
		})
		return err
	})
	return w
}

func (w *denialWorld) change(t *testing.T, name string, do func(id string) error) {
	t.Helper()
	if err := do(w.ids[name]); err != nil {
		t.Fatal(err)
	}
}

func resolver(t *testing.T) *identity.Resolver {
	t.Helper()
	r, err := identity.New(identity.Default())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send makes the call and returns the event's request id.
func (w *denialWorld) send(t *testing.T, i int, c denialCall) string {
	t.Helper()
	_ = w.answer(t, i, c)
	return requestID(i)
}

func requestID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }

// answer makes the call and returns the authorizer's response.
func (w *denialWorld) answer(t *testing.T, i int, c denialCall) string {
	t.Helper()
	id := requestID(i)
	value, own := strings.CutPrefix(c.key, ":")
	if !own {
		value = w.values[c.key]
	}
	headers := map[string]string{"accept": "*/*"}
	if value != "" {
		headers["x-api-key"] = value
	}
	event, err := json.Marshal(map[string]any{
		"type": "REQUEST", "methodArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/" +
			c.method + c.path,
		"resource": c.resource, "path": c.path, "httpMethod": c.method,
		"headers": headers, "multiValueHeaders": map[string][]string{},
		"requestContext": map[string]any{"requestId": id, "identity": map[string]string{"sourceIp": c.addr}},
	})
	if err != nil {
		t.Fatal(err)
	}
	response, _ := w.authorizer.Invoke(t.Context(), event)
	return string(response)
}

// The denials have every denied call, by caller, limit and minute, also those denied
// from memory, and refused calls
// that had a key's secret or have a reason. It has the route's pattern but not the called
// path, and no full address.
func TestDenialsHaveEveryDenial(t *testing.T) {
	w := newDenialWorld(t)
	limit := "2 per hour"
	calls := []denialCall{
		{"two", "GET", "/orders/7", "/orders/{id}", "192.0.2.7", 0, "", "", ""},
		{"two", "GET", "/orders/8", "/orders/{id}", "192.0.2.7", 0, "", "", ""},
		{"two", "GET", "/orders/9", "/orders/{id}", "192.0.2.7", cause.Limit, limit, "", "/orders/{id}"},
		{"two", "BREW", "/orders/9", "/{proxy+}", "192.0.2.9", cause.Limit, limit, "", "/{proxy+}"},
		{"many", "GET", "/search/jane", "/{proxy+}", "2001:db8:1:2::3", 0, "", "", ""},
		{"many", "POST", "/search/john", "/{proxy+}", "2001:db8:1:2::3", cause.Limit,
			"1 per hour on search", "search", "/search/{term}"},
		{"many", "GET", "/address", "/address", "198.51.100.9", 0, "", "", ""},
		{"many", "GET", "/address", "/address", "198.51.100.9", cause.Limit,
			"1 per hour on GET /address each address", "", "/address"},
		{"many", "GET", "/together", "$default", "192.0.2.7", 0, "", "", ""},
		{"many", "GET", "/together", "$default", "192.0.2.7", cause.Limit,
			"1 per hour on GET /together together", "", "$default"},
		{"many", "GET", "/items/7", "", "192.0.2.7", 0, "", "", ""},
		{"many", "GET", "/items/7", "", "192.0.2.7", cause.Limit, "1 per hour on items each {item}", "items",
			"/items/{item}"},
		{"team", "GET", "/free", "/free", "192.0.2.7", 0, "", "", ""},
		{"team", "GET", "/free", "/free", "192.0.2.7", cause.Limit, "1 per hour each group", "", "/free"},
		{"many", "GET", "/free", "/free", "192.0.2.7", 0, "", "", ""},
		{"many", "GET", "/free", "/free", "203.0.113.9", cause.Address, "", "", "/free"},
		{"revoked", "GET", "/free", "/free", "192.0.2.7", cause.Revoked, "", "", "/free"},
		{"rotated", "GET", "/free", "", "192.0.2.7", cause.OldSecret, "", "", "*"},
		{"banned", "GET", "/free", "/free", "192.0.2.7", cause.Ban, "", "", "/free"},
		{":" + someKey(t), "GET", "/free", "/free", "192.0.2.7", 0, "", "", ""},
		{":tg_test_wrong", "GET", "/free", "/free", "192.0.2.7", cause.Malformed, "", "", ""},
		{"nobody", "GET", "/free", "/free", "192.0.2.7", 0, "", "", ""},
		{"two", "GET", "/free", "/free", "203.0.113.9", cause.Address, "", "", "/free"},
	}
	single := len(calls)
	for i := range 14 { // the last of them without asking Valkey
		calls = append(calls, denialCall{"two", "GET", "/list", fmt.Sprint("/list-", i/4), "192.0.2.7",
			cause.Limit, limit, "", fmt.Sprint("/list-", i/4)})
	}
	var want []records.Denial
	before := 0
	for i, c := range calls {
		if i == single {
			before = w.scriptRuns(t)
		}
		w.freeze(time.Millisecond)
		id := w.send(t, i, c)
		if c.cause == 0 {
			continue
		}
		method := c.method
		if method == "BREW" {
			method = "other"
		}
		plan := map[string]string{"two": "two", "many": "many", "banned": "many", "team": "team"}[c.key]
		if c.cause.Refuses() {
			plan = ""
		}
		d := records.Denial{
			Kind: records.Kind{Cause: c.cause, Limit: c.limit, Plan: plan}, Time: w.checker.now().UTC(),
			Caller: w.ids[c.key], Calls: 1, Route: c.route, Method: method, Path: c.pattern,
			Group: map[string]string{"team": "acme"}[c.key], API: "abcdef123", Stage: "prod",
			Network: networkOf(netip.MustParseAddr(c.addr)), Requests: []string{id},
		}
		if c.cause == cause.Malformed { // it proved no key, so nothing of the call is recorded
			d = records.Denial{Time: d.Time, Calls: 1, Network: d.Network, Requests: d.Requests,
				Kind: records.Kind{Cause: c.cause, Reason: "malformed API key"}}
		}
		same := func(o records.Denial) bool { return o.Kind == d.Kind && o.Caller == d.Caller }
		if k := slices.IndexFunc(want, same); k >= 0 { // all are of one minute
			want[k].Calls++
			want[k].Requests = append(want[k].Requests, id)
			continue
		}
		want = append(want, d)
	}
	asked := w.scriptRuns(t) - before
	w.checker.Close()
	reader := records.NewReader(w.admin, w.checker.now)
	got, err := reader.Denials(t.Context(), records.DenialQuery{From: w.checker.now().Add(-time.Hour),
		To: w.checker.now().Add(time.Hour), Count: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Denials {
		if got.Denials[i], err = reader.WithRequests(t.Context(), got.Denials[i]); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got.Denials[i].Requests)
	}
	byTime := func(a, b records.Denial) int { return a.Time.Compare(b.Time) }
	slices.SortFunc(got.Denials, byTime)
	options := []gocmp.Option{cmpopts.IgnoreFields(records.Denial{}, "RetryAfter"),
		cmpopts.IgnoreUnexported(records.Denial{}), cmpopts.EquateComparable(netip.Prefix{})}
	if diff := gocmp.Diff(want, got.Denials, options...); diff != "" {
		t.Error(diff)
	}
	for _, d := range got.Denials {
		wait := d.RetryAfter > 0 && d.RetryAfter <= time.Hour
		if wait == d.Cause.Refuses() {
			t.Errorf("Retry-After of %+v", d)
		}
	}
	if asked > 10 {
		t.Errorf("the last 14 calls ran %d scripts, want at most 10 and the others from memory", asked)
	}
	w.countedByCause(t, reader)
}

// A call that passed, and that a limit in shadow would have denied, counts for that limit, in
// its minute. A call that is denied does not.
func TestLimitsInShadowAreCounted(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free",
		Limits: registrytest.Limits("5 per hour", "2 per hour, shadow")})
	f.edit(t, func(s *policy.Set) {
		s.Routes = []limits.Route{registrytest.Route("search", 1, "/search")}
		s.Limits = registrytest.Limits("1 per hour, on search, each caller, shadow")
	})
	secret := f.key(t, "free")
	for i, path := range []string{"/search", "/search", "/", "/", "/", "/"} {
		f.freeze(time.Minute)
		result, err := f.Check(t.Context(), enforce.Call{Kind: policy.APIKey, Subject: secret.ID(),
			Secret: secret, Route: route.Call{Method: "GET", Path: path}, Resource: "/x"})
		if err != nil || result.Allowed != (i < 5) || (result.Reference == "") != result.Allowed {
			t.Fatalf("call %d: got allowed %t, reference %q, %v; want the first 5 to pass", i, result.Allowed,
				result.Reference, err)
		}
	}
	f.checker.Close()
	got, err := records.NewReader(f.admin, f.checker.now).Caller(t.Context(), secret.ID(),
		records.Last(time.Hour, 0, f.checker.now()))
	want := []records.KindCount{
		{Kind: records.Kind{Cause: cause.Shadow, Limit: "2 per hour"}, Calls: 3},
		{Kind: records.Kind{Cause: cause.Limit, Limit: "5 per hour"}, Calls: 1},
		{Kind: records.Kind{Cause: cause.Shadow, Limit: "1 per hour on search"}, Calls: 1},
	}
	if diff := gocmp.Diff(want, got.ByKind()); err != nil || diff != "" {
		t.Error(diff, err)
	}
}

// countedByCause compares the counts with what TestDenialsHaveEveryDenial sends.
func (w *denialWorld) countedByCause(t *testing.T, reader *records.Reader) {
	t.Helper()
	last := records.Last(time.Hour, 0, w.checker.now())
	byCause := func(s records.Series, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]int64{}
		for _, k := range s.ByKind() {
			sums[k.Cause.String()] += k.Calls
		}
		return fmt.Sprint(sums, s.Sum().Allowed)
	}
	const all = "map[address:2 ban:1 limit:21 malformed:1 missing:1 old-secret:1 revoked:1 unknown:1] 8"
	if got := byCause(reader.Total(t.Context(), last)); got != all {
		t.Errorf("in total: %s, want %s", got, all)
	}
	if got, want := byCause(reader.Caller(t.Context(), w.ids["two"], last)),
		"map[address:1 limit:16] 2"; got != want {
		t.Errorf("of one key: %s, want %s", got, want)
	}
}

// While an issuer's keys cannot be read, each reason has at most one line a minute, which
// counts the calls without one.
func TestUnreadKeysAreLoggedOnceAMinute(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "two", Limits: perHour(2)})
	unread := func(calls int) int {
		for range calls {
			f.Refused(t.Context(), authorizer.Refused{Refusal: policy.RefusedError{Cause: cause.Unavailable,
				Reason: "the key set cannot be fetched"}})
		}
		return strings.Count(f.log.String(), "caller not identified")
	}
	if lines := unread(100); lines != 1 {
		t.Errorf("got %d lines for 100 calls, want 1", lines)
	}
	f.clock.Add(int64(time.Minute))
	if lines := unread(1); lines != 2 || !strings.Contains(f.log.String(), "omitted=99") ||
		!strings.Contains(f.log.String(), `level=ERROR msg="caller not identified" reason="the key set`) {
		t.Errorf("got %d lines, want a second one with omitted=99:\n%s", lines, f.log.String())
	}
}

// A policy that decides by address finds the address of a call with a port, and refuses a
// call whose address cannot be read. A line a minute says so, without the text.
func TestAddressesThatCannotBeRead(t *testing.T) {
	w := newDenialWorld(t)
	w.edit(t, func(s *policy.Set) { s.Limits = registrytest.Limits("2 per hour, each address") })
	calls := 0
	call := func(addr, key string) bool {
		calls++
		response := w.answer(t, calls, denialCall{key: key, method: "GET", path: "/free", addr: addr})
		return strings.Contains(response, `"Allow"`)
	}
	for _, addr := range []string{"203.0.113.9", "203.0.113.9:1234", "[::ffff:203.0.113.9]:443"} {
		if call(addr, "many") {
			t.Errorf("%s: a call of a denied address passes", addr)
		}
	}
	if !call("192.0.2.8:1001", "many") || !call("192.0.2.8:1002", "many") || call("192.0.2.8:1003", "many") {
		t.Error("calls of one address with three ports: want two of 2 per hour to pass")
	}
	const unread = "203.0.113.9;1234"
	for range 50 {
		if call(unread, "many") || call("", "many") {
			t.Fatal("a call without an address that can be read passes")
		}
	}
	if log := w.log.String(); strings.Count(log, "level=WARN msg=refused") != 1 ||
		!strings.Contains(log, "no address that can be read") || strings.Contains(log, "203.0.113") {
		t.Errorf("got %s, want one line, without the text", log)
	}
	w.edit(t, func(s *policy.Set) { s.Limits, s.Deny = nil, nil })
	if !call(unread, "many") {
		t.Error("a policy that decides nothing by address refuses a call for it")
	}
}

// A caller whose calls can never pass has at most one line a minute. It names the route,
// whose cost is above the caller's override.
func TestNeverPassingCallsAreLoggedOnceAMinute(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "many", Limits: perHour(1000)})
	f.edit(t, func(s *policy.Set) { s.Routes = []limits.Route{registrytest.Route("report", 1, "/reports")} })
	secret := f.key(t, "many")
	override := &policy.Override{Limits: perHour(2), Reason: "small"}
	if _, err := registrytest.Override(t.Context(), f.set, secret.ID(), override, tester); err != nil {
		t.Fatal(err)
	}
	f.edit(t, func(s *policy.Set) { s.Routes = []limits.Route{registrytest.Route("report", 3, "/reports")} })
	call := enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret,
		Route: route.Call{API: "a", Stage: "s", Method: "GET", Path: "/reports"}}
	for range 50 {
		if got, err := f.Check(t.Context(), call); err != nil || got.Allowed || !got.Never() ||
			got.RetryAfter() != 0 {
			t.Fatalf("got %+v, %v, want a denial without a time to retry", got, err)
		}
	}
	want := `level=ERROR msg="call costs more than its limit" key_id=` + secret.ID() + " route=report"
	if strings.Count(f.log.String(), "costs more") != 1 || !strings.Contains(f.log.String(), want) {
		t.Errorf("got %s, want one line with %s", f.log.String(), want)
	}
}

// A check that fails has at most one line a minute for each caller, without its secret.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	f := newFunction(t)
	call := madeUp(t)
	for range 50 {
		f.logFailure(t.Context(), call, limiter.ErrReply)
	}
	if log := f.log.String(); strings.Count(log, "check failed") != 1 ||
		!strings.Contains(log, call.Subject) || strings.Contains(log, call.Secret.Reveal()) {
		t.Errorf("got %s, want one line with the id alone", log)
	}
}

// someKey returns a well-formed key that does not exist.
func someKey(t *testing.T) string {
	t.Helper()
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// Keys that are denied now are listed for the dashboard: denied and banned ones. A key that
// may call is not listed.
func TestDeniedKeysAreListed(t *testing.T) {
	w := newDenialWorld(t)
	call := denialCall{key: "two", method: "GET", path: "/orders/7", resource: "/orders/{id}",
		addr: "192.0.2.7"}
	w.send(t, 1, call)
	w.send(t, 2, call)
	call.key = "many"
	w.send(t, 3, call)
	if ids := w.listed(t, records.DeniedNow); len(ids) != 0 {
		t.Errorf("listed are %v, want none", ids)
	}
	call.key = "two"
	w.send(t, 4, call)
	if ids := w.listed(t, records.DeniedNow); !slices.Equal(ids, []string{w.ids["two"]}) {
		t.Errorf("listed as denied: %v, want %s", ids, w.ids["two"])
	}
	call.key = "banned"
	w.send(t, 5, call)
	if ids := w.listed(t, records.BannedNow); !slices.Equal(ids, []string{w.ids["banned"]}) {
		t.Errorf("listed as banned: %v, want %s", ids, w.ids["banned"])
	}
}

// listed sends what is recorded and returns the callers of a list.
func (f *function) listed(t *testing.T, list records.List) []string {
	t.Helper()
	if report := f.checker.records.Flush(t.Context(), f.checker.reachable()); report.Err != nil {
		t.Fatal(report.Err)
	}
	found, err := records.NewReader(f.admin, f.checker.now).InState(t.Context(), list, true, "", 10)
	if err != nil || found.Next != "" {
		t.Fatal(found.Next, err)
	}
	return found.IDs
}

// A key is listed as near a limit from the call that leaves a fifth of one of its own
// limits, or of its group's, until that limit resets. So is a token's caller with an
// override. Limits on all callers list nobody.
func TestKeysNearALimitAreListed(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "ten", Limits: registrytest.Limits("10 per day")},
		policy.Plan{Name: "many", Limits: perHour(1000)},
		policy.Plan{Name: "team", Limits: registrytest.Limits("1,000 per hour", "5 per hour, each group")})
	f.edit(t, func(s *policy.Set) {
		s.TokenPlan, s.Limits = "many", registrytest.Limits("25 per hour, together")
	})
	secret, other, token := f.key(t, "ten"), f.key(t, "many"), f.set.TokenCaller("issuer", "somebody")
	_, grouped := registrytest.Create(t, f.set, tester,
		policy.NewKey{Name: "grouped", Env: "test", Plan: "team", Group: "g"})
	if _, err := f.set.Adopt(t.Context(), policy.Token, token, "somebody",
		&policy.Override{Limits: perHour(5), Reason: "a test"}, tester); err != nil {
		t.Fatal(err)
	}
	want := []string{}
	near := func(id string, calls, from int, call func()) {
		for i := 1; i <= calls; i++ {
			call()
			if i == from {
				want = append(want, id)
			}
			if got := f.listed(t, records.Near); !slices.Equal(slices.Sorted(slices.Values(got)),
				slices.Sorted(slices.Values(want))) {
				t.Fatalf("after call %d of %s: %v, want %v", i, id, got, want)
			}
		}
	}
	near(secret.ID(), 10, 8, func() { f.call(t, secret) })
	near(token, 5, 4, func() {
		if _, err := f.Check(t.Context(), enforce.Call{Kind: policy.Token, Subject: token}); err != nil {
			t.Fatal(err)
		}
	})
	near(grouped.ID(), 5, 4, func() { f.call(t, grouped) })
	near("nobody", 4, 0, func() { f.call(t, other) })
	f.clock.Add(int64(24*time.Hour - time.Minute))
	if got := f.listed(t, records.Near); !slices.Equal(got, []string{secret.ID()}) {
		t.Errorf("a day later: %v, want %s", got, secret.ID())
	}
}

// counts returns the sums of the metrics written so far.
func (f *function) counts(t *testing.T) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for line := range strings.Lines(f.out.String()) {
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for name, value := range values {
			switch v := value.(type) {
			case float64:
				sums[name] += v
			case []any:
				sums[name] += float64(len(v))
			}
		}
	}
	return sums
}

// Metrics count each call's result: allowed, near the limit, denied, denied in shadow
// mode, decided without Valkey, refused. The log has the denials of each caller.
func TestMetricsOfCalls(t *testing.T) {
	f := newFunction(t,
		policy.Plan{Name: "ten", Limits: registrytest.Limits("10 per day")},
		policy.Plan{Name: "shadow", Limits: registrytest.Limits("1 per hour, shadow")},
	)
	ten, shadow := f.key(t, "ten"), f.key(t, "shadow")
	for range 13 {
		f.call(t, ten)
	}
	for range 3 {
		f.call(t, shadow)
	}
	f.metrics.RecordRefusal(t.Context(), true)
	f.metrics.RecordRefusal(t.Context(), false)
	f.stopServing(t)
	f.call(t, ten)
	f.metrics.Flush()

	got := f.counts(t)
	for name, want := range map[string]float64{
		"Checks": 17, "Allowed": 13, "Denied": 4, "ShadowDenied": 2, "Degraded": 1, "StoreErrors": 1,
		"Refused": 2, "Unauthorized": 1,
		"ColdStart": 1,
		"NearLimit": 2, // two calls left 1 and 0 of ten; limits in shadow do not count
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if lines := strings.Count(f.log.String(), "msg=denied "); lines != 1 {
		t.Errorf("%d lines about one caller's denials in a minute, want 1:\n%s", lines, f.log.String())
	}
	for _, want := range []string{"key_id=" + ten.ID(), `limit="10 per day"`, "others_omitted=3"} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, f.log.String())
		}
	}
}

// Metrics are written once in ten seconds.
func TestMetricsAreFewLines(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "ten", Limits: registrytest.Limits("10 per day")})
	secret := f.key(t, "ten")
	for range 2 {
		for range 4 {
			f.call(t, secret)
		}
		f.freeze(metricsInterval)
	}
	f.call(t, secret)
	if lines := strings.Count(f.out.String(), "\n"); lines != 3 { // the first call's, and one for each pause
		t.Errorf("%d lines, want 3:\n%s", lines, &f.out)
	}
	if got := f.counts(t); got["Checks"] != 9 {
		t.Errorf("got %v, want 9 checks", got)
	}
}

// A stage must be valid as a metric's dimension. Without a stage no metrics are written.
func TestStageOfMetrics(t *testing.T) {
	_, err := newCallMetrics(io.Discard, "pr\nod", slog.New(slog.DiscardHandler), time.Now)
	if !errors.Is(err, telemetry.ErrDimension) || !strings.Contains(err.Error(), "STAGE") {
		t.Errorf("got %v, want ErrDimension for STAGE", err)
	}
	m, err := newCallMetrics(nil, "", slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	m.RecordCheck(t.Context(), enforce.Result{Allowed: true, WouldAllow: true},
		decide.Report{})
	m.RecordRefusal(t.Context(), true)
	m.Flush()
}

// A crossed threshold is reported once, after the answer, also when the environment ends
// or Valkey is unavailable. The report does not contain the secret.
func TestCrossedThresholdsAreReported(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free",
		Limits: registrytest.Limits("4 per day, fixed window, notify at 50/100 %")})
	secret := f.key(t, "free")
	reported := func() int { return strings.Count(f.log.String(), "event=limit_crossed") }
	for calls, want := range []int{0, 1, 1, 2, 2} {
		f.call(t, secret)
		if before := reported(); before > want || want > before+1 {
			t.Errorf("%d reports before the answer to call %d, want at most %d", before, calls+1, want)
		}
		if f.afterAnswer(); reported() != want {
			t.Errorf("%d reports after call %d, want %d:\n%s", reported(), calls+1, want, f.log.String())
		}
	}
	for _, part := range []string{"key_id=" + secret.ID(), "key_name=caller", "plan=free",
		`who="each caller"`,
		"threshold=50 used=2 max=4", "threshold=100 used=4 max=4", `limit="4 per day"`} {
		if !strings.Contains(f.log.String(), part) {
			t.Errorf("the log lacks %s:\n%s", part, f.log.String())
		}
	}
	if strings.Contains(f.log.String(), secret.Reveal()) {
		t.Error("the log contains the secret")
	}

	other := f.key(t, "free")
	f.call(t, other)
	f.call(t, other)
	f.stopServing(t)
	f.call(t, other)
	if f.afterAnswer(); reported() != 3 {
		t.Errorf("Valkey unavailable: %d reports, want 3", reported())
	}
	f.serveAgain(t)

	last := f.key(t, "free")
	f.call(t, last)
	f.call(t, last)
	if (&assembled{checker: f.checker, metrics: f.metrics}).end(); reported() != 4 {
		t.Errorf("at the end: %d reports, want 4", reported())
	}
}

// A call that is retried after a lost reply reports a threshold that either attempt
// crossed.
func TestCrossedByALostReply(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: registrytest.Limits("10 per day, notify at 50 %")})
	secret := f.key(t, "free")
	for range 4 {
		f.call(t, secret)
	}
	call := enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret}
	checker := f.checker.Loaded()
	if _, err := checker.Check(t.Context(), call); err != nil { // the fifth call; its reply is lost
		t.Fatal(err)
	}
	call.Again = true
	result, err := checker.Check(t.Context(), call)
	if err != nil || len(result.Crossings) != 1 || result.Crossings[0].Percent != 50 {
		t.Errorf("got %+v, %v, want a crossing of 50%%", result.Crossings, err)
	}
}
