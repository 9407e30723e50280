//go:build unix

package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

var pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))

// deployment is the built admin function behind an HTTP API, with a Valkey server.
type deployment struct {
	url, token string
	valkey     string
	keys       *registry.Store
	checker    *enforce.Checker
	log        *waiting.Buffer
	// imports increases with each import of keys. atImport is called when it reaches 0.
	imports  atomic.Int64
	atImport func()
	// refuse is the number of first requests that API Gateway's throttle refuses.
	refuse atomic.Int64
}

func deploy(t *testing.T, foreign string) *deployment {
	t.Helper()
	server := valkeytest.Start(t)
	client := storetest.Connect(t, server)
	data := t.TempDir()
	d := &deployment{log: &waiting.Buffer{}, valkey: server, keys: registrytest.Open(t, client, data, pepper),
		checker: enforce.NewChecker(client, pepper)}
	api := &gateway.HTTP{Integration: d.function(t, "admin", map[string]string{
		"CHANGES_LOG": data, "ADMIN_USER": "ada", "ADMIN_PASSWORD": "a password of twenty characters",
		"FOREIGN_KEYS": foreign,
	})}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.refuse.Add(-1) >= 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/import") && d.imports.Add(1) == 0 {
			d.atImport()
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(site.Close)
	_, secret, err := token.NewStore(d.keys, client, pepper).Create(t.Context(), token.New{
		Name: "migrate", Scope: token.Write, Expires: time.Now().Add(time.Hour),
		By: registrytest.Edit.By,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.url, d.token = site.URL, secret.Reveal()
	return d
}

// function builds and starts a function with the deployment's Valkey server.
func (d *deployment) function(t *testing.T, name string, env map[string]string) *lambda.Function {
	t.Helper()
	binary := built.Program(t, "tidegate/functions/"+name)
	env["VALKEY_URL"], env["KEY_PEPPER"] = d.valkey, string(pepper)
	f, err := lambda.Start(lambda.Config{
		Name: name, Binary: binary, Env: env, Warm: 1, Timeout: waiting.Timeout,
		Concurrency: 2 * workers, // an interrupted run leaves some invocations
		Log:         d.log,
	})
	if err != nil {
		t.Fatalf("%v: %s", err, d.log)
	}
	t.Cleanup(f.Close)
	return f
}

// migrate runs the program with the deployment's dashboard.
func (d *deployment) migrate(t *testing.T, want int, args ...string) string {
	t.Helper()
	environment := map[string]string{tokenVariable: d.token}
	return command(t, want, environment, "", append(args, "-dashboard", d.url)...)
}

// calls makes n calls of an API in sequence, with an old key value. It returns a
// character for each call: y for allowed, n for denied, - for an error.
func (d *deployment) calls(t *testing.T, value, api string, n int) string {
	t.Helper()
	s, err := apikey.NewKey(pepper).Foreign(value)
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	for range n {
		call := enforce.Call{Kind: policy.APIKey, Subject: s.ID(), Secret: s,
			Route: route.Call{API: api, Stage: "prod", Method: http.MethodGet, Path: "/"}}
		switch result, err := d.checker.Check(t.Context(), call); {
		case err != nil:
			seen += "-"
		case result.Allowed:
			seen += "y"
		default:
			seen += "n"
		}
	}
	return seen
}

// The sample's keys are imported with their old values, which open only the stages of
// their usage plans. Disabled keys are refused. The same command again changes nothing.
func TestImportSample(t *testing.T) {
	d, fresh := deploy(t, "true"), filepath.Join(t.TempDir(), "reissued.csv")
	out := d.migrate(t, done, "-from", "testdata/usageplans")
	if !strings.Contains(out, "Nothing was changed. Set -apply") || !strings.Contains(out, "plan Basic") {
		t.Errorf("dry run: got %s", out)
	}
	if set, err := d.keys.Set(t.Context()); err != nil || len(set.Plans) > 0 {
		t.Fatalf("policy after the dry run: got %+v, %v, want no plans", set, err)
	}
	d.refuse.Store(2)
	got := d.migrate(t, failedSome, "-from", "testdata/usageplans", "-apply")
	for _, want := range []string{"Imported 4 keys", "2 failed", "key k3: its value cannot be kept"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %s", want, got)
		}
	}
	for range 2 {
		out += got
		got = d.migrate(t, done, "-from", "testdata/usageplans", "-apply", "-reissued", fresh)
	}
	if strings.Contains(got, "stay as they are") || !strings.Contains(got, "Imported 0 keys") ||
		!strings.Contains(got, "6 already exist") {
		t.Errorf("repeated import: got %s", got)
	}
	check := d.function(t, "check", map[string]string{"FOREIGN_KEYS": "true", "VALKEY_TIMEOUT": "5s"})
	for _, c := range []struct {
		value, api, stage string
		want              int
	}{
		{"Kq8vR2nW5xZ1cB4mJ7tY9pL3", "a1orders", "prod", http.StatusOK}, // of one plan
		{"Kq8vR2nW5xZ1cB4mJ7tY9pL3", "a1orders", "test", http.StatusUnauthorized},
		{"Kq8vR2nW5xZ1cB4mJ7tY9pL3", "a3maps", "v1", http.StatusUnauthorized},
		{"Lm5nB7vC9xZ2qW4eR6tY8uIo", "a1orders", "prod", http.StatusOK}, // of two plans
		{"Lm5nB7vC9xZ2qW4eR6tY8uIo", "a3maps", "v1", http.StatusOK},
		{"Lm5nB7vC9xZ2qW4eR6tY8uIo", "a4news", "prod", http.StatusUnauthorized},
		{"Zt4hS8dF1gQ6wE3rU9iO2aXy", "a1orders", "prod", http.StatusUnauthorized}, // not enabled
		{"Ws2eD4rF6tG8yH1uJ3iK5oLp", "a4news", "prod", http.StatusUnauthorized},   // lets nothing pass
		{"Rt5yU7iO9pA1sD3fG6hJ8kLz", "a1orders", "prod", http.StatusUnauthorized}, // of a plan without stages
		{"Pa1sD3fG5hJ7kL9qW2eR4tYu", "a1orders", "prod", http.StatusUnauthorized}, // of no plan
	} {
		api := &gateway.REST{Authorizer: check, Integration: echo.Backend{}, APIID: c.api, Stage: c.stage}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/any/path", http.NoBody)
		r.Header.Set("X-Api-Key", c.value)
		w := httptest.NewRecorder()
		if api.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s… on %s/%s: got %d, want %d", c.value[:3], c.api, c.stage, w.Code, c.want)
		}
	}
	text, err := os.ReadFile(fresh)
	if err != nil || strings.Count(string(text), "tg_live_") != 2 || strings.Count(string(text), "\n") != 2 {
		t.Errorf("got %d bytes, %v, want 2 lines with secrets", len(text), err)
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want mode 0600", info, err)
	}
	for _, value := range append(sampleValues(t), d.token, "tg_live_") {
		if strings.Contains(out+got+d.log.String(), value) {
			t.Errorf("got the secret %s in the output or the log", value)
		}
	}
}

// Plans begin in shadow. A second run changes nothing, whatever an operator
// has changed since. A plan of the same name that opens every route is refused, in the dry
// run as well.
func TestExistingPlans(t *testing.T) {
	d := deploy(t, "true")
	args := []string{"-from", "testdata/usageplans", "-apply", "-reissued",
		filepath.Join(t.TempDir(), "r.csv")}
	got := d.migrate(t, done, append(args, "-shadow")...)
	by := registrytest.Edit
	set, err := d.keys.Set(t.Context())
	if err != nil || len(set.Plans) != 5 || !policy.DenyNothing(set.Plans[0].Limits) {
		t.Fatalf("got %+v, %v, want plans in shadow: %s", set, err, got)
	}
	set.Plans[0].Limits[0].Shadow, set.Plans[1].Limits[0].Requests = false, 7
	before, err := d.keys.SaveSet(t.Context(), *set, by)
	if err != nil {
		t.Fatal(err)
	}
	got = d.migrate(t, done, append(args, "-shadow")...)
	after, err := d.keys.Set(t.Context())
	if err != nil || after.Version != before.Version {
		t.Errorf("second run: got version %d, %v, want %d", after.Version, err, before.Version)
	}
	for _, want := range []string{"plan Basic: limits: 20 per 2 seconds, token bucket; ",
		"Changes to the policy in force:\nnone",
		"plan Basic (p2basic): limits: 7 per 2 seconds, token bucket, shadow; ", "Imported 0 keys"} {
		if !strings.Contains(got, want) {
			t.Errorf("second run: want %s in %s", want, got)
		}
	}
	before.Plans[0].Opens = nil
	if before, err = d.keys.SaveSet(t.Context(), *before, by); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{args, args[:2]} {
		if got := d.migrate(t, failedSome, args...); !strings.Contains(got,
			"plan Basic exists and opens all routes") || strings.Contains(got, "Imported") {
			t.Errorf("%q: got %s, want that plan Basic exists", args, got)
		}
	}
	if after, err := d.keys.Set(t.Context()); err != nil || after.Version != before.Version {
		t.Errorf("refused run: got version %d, %v, want %d", after.Version, err, before.Version)
	}
}

// Without FOREIGN_KEYS every key fails, with an error that names the variable.
func TestImportWithoutForeignKeys(t *testing.T) {
	d := deploy(t, "false")
	got := d.migrate(t, failedSome, "-from", "testdata/usageplans", "-apply")
	if !strings.Contains(got, "FOREIGN_KEYS=true") || !strings.Contains(got, "Imported 0 keys") {
		t.Errorf("got %s, want no imported keys and FOREIGN_KEYS=true", got)
	}
}

// An interrupted import of a large export continues with the next run, and imports every
// key once. Old values work up to their plan's limit.
func TestImportThousands(t *testing.T) {
	tier.Two(t, "imports 10,000 keys")
	const keys = 10_000
	d := deploy(t, "true")
	folder, apis := madeExport(t, 12, keys)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.imports.Store(-20) // ends the first run in the middle
	d.atImport = cancel
	var out, errOut bytes.Buffer
	getenv := func(string) string { return d.token }
	args := []string{"-from", folder, "-dashboard", d.url, "-apply"}
	if status := Run(ctx, args, getenv, nil, &out, &errOut); status != failedSome {
		t.Fatalf("interrupted run: got exit status %d, want %d: %s %s", status, failedSome, &out, &errOut)
	}
	began := time.Now()
	got := d.migrate(t, done, "-from", folder, "-apply")
	t.Logf("the rest of %d keys in %s: %s", keys, time.Since(began), got[strings.LastIndex(got, "Imported"):])
	set, err := d.keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts, err := d.keys.PlanCounts(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if total != keys || len(set.Plans) != 12 {
		t.Errorf("got %d keys of %d plans, want %d of 12", total, len(set.Plans), keys)
	}
	tried := 0
	for value, api := range apis {
		if seen := d.calls(t, value, api, 6); seen != "yyyyyn" {
			t.Errorf("calls with an old value: got %s, want yyyyyn", seen)
		}
		if tried++; tried == 20 {
			break
		}
	}
}

// madeExport writes an export by the AWS CLI of a number of plans and keys, on 3 APIs and
// in pages of 500. Each plan allows 5 calls at once and then one in 1,000 s. apis has the
// API that each key value opens.
func madeExport(t *testing.T, plans, keys int) (folder string, apis map[string]string) {
	t.Helper()
	folder, apis = t.TempDir(), map[string]string{}
	write := func(name string, items []any) {
		var text bytes.Buffer
		for page := range max((len(items)+499)/500, 1) {
			rest := items[page*500:]
			answer := map[string]any{"items": rest[:min(500, len(rest))]}
			if len(rest) > 500 {
				answer["NextToken"] = fmt.Sprint(page)
			}
			if err := json.NewEncoder(&text).Encode(answer); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all, listed []any
	for i := range plans {
		api := fmt.Sprintf("api%d", i%3)
		all = append(all, map[string]any{
			"id": fmt.Sprintf("plan%d", i), "name": fmt.Sprintf("Plan %d", i),
			"apiStages": []any{map[string]any{"apiId": api, "stage": "prod"}},
			"throttle":  map[string]any{"rateLimit": 0.001, "burstLimit": 5},
		})
		var members []any
		for k := i; k < keys; k += plans {
			id := fmt.Sprintf("key%d", k)
			secret, err := apikey.Generate("x")
			if err != nil {
				t.Fatal(err)
			}
			value := secret.Reveal()[5:45]
			apis[value] = api
			members = append(members, map[string]any{"id": id, "type": "API_KEY", "value": value,
				"name": "Customer"})
			listed = append(listed, map[string]any{"id": id, "value": value, "name": "Customer",
				"enabled": true, "createdDate": "2024-05-02T09:00:00+00:00", "stageKeys": []string{}})
		}
		write(fmt.Sprintf("plan%d", i), members)
	}
	write("usage-plans", all)
	write("api-keys", listed)
	return folder, apis
}
