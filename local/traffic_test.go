//go:build unix

package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	neturl "net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/sitetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
	dashboard "tidegate/local/site"
)

// tally is the test's own list of the calls of a caller.
type tally struct {
	allowed, denied, refused, cost, shadow int64
	byLimit                                map[string]int64
	references                             map[string]bool // of the 429s
}

func (c *tally) calls() int64 { return c.allowed + c.denied + c.refused }

// traffic drives a built check function, whose environments are frozen after each call, and
// reads the dashboard.
type traffic struct {
	*checkFunction
	t            *testing.T
	ids          map[string]string
	secrets      map[string]apikey.Secret
	tallies      map[string]*tally
	sent         int
	bursts       int
	environments []*checkFunction // with one environment each
	base         string
	client       *http.Client
}

func newTraffic(t *testing.T) *traffic {
	t.Helper()
	server := valkeytest.Start(t)
	w := &traffic{checkFunction: startCheck(t, server, nil), t: t, ids: map[string]string{},
		secrets: map[string]apikey.Secret{}, tallies: map[string]*tally{"": newTally()}}
	w.environments = []*checkFunction{w.checkFunction}
	for range 2 {
		another := startCheckFrom(t, filepath.Join(bin(t), "check", "bootstrap"), server, w.data, nil)
		w.environments = append(w.environments, another)
	}
	registrytest.Save(t, w.store, byTest, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "two", Limits: registrytest.Limits("20 per hour",
			"15 per hour, shadow")},
			{Name: "many", Limits: registrytest.Limits("1,000 per hour")},
			{Name: "team", Limits: registrytest.Limits("1,000 per hour", "10 per hour, each group")}}
		s.Routes = []limits.Route{registrytest.Route("search", 1, "/search"),
			registrytest.Route("free", 0, "/free"), registrytest.Route("big", 7, "/big")}
		s.Limits = registrytest.Limits("4 per hour, on search, each caller",
			"5 per hour, on GET /address, each address", "6 per hour, on GET /together, together")
	})
	for name, plan := range map[string]string{"own": "two", "route": "many", "address": "many",
		"together": "many", "team": "team", "costs": "many", "banned": "many", "revoked": "many"} {
		n := policy.NewKey{Name: name, Env: "test", Plan: plan}
		if plan == "team" {
			n.Group = "acme"
		}
		k, secret := registrytest.Create(t, w.store, byTest, n)
		w.ids[name], w.secrets[name], w.tallies[name] = k.ID, secret, newTally()
	}
	w.open()
	return w
}

func newTally() *tally { return &tally{byLimit: map[string]int64{}, references: map[string]bool{}} }

// open logs in to the dashboard.
func (w *traffic) open() {
	handler, err := dashboard.New(w.store, w.checkFunction.client, apikey.Pepper(checkPepper))
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewTLSServer(handler)
	w.t.Cleanup(server.Close)
	w.base, w.client = server.URL, server.Client()
	w.client.Jar, _ = cookiejar.New(nil) // cannot fail without options
	form := neturl.Values{"user": {dashboard.User}, "password": {dashboard.Password}}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+"/login",
		strings.NewReader(form.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", w.base)
	response, err := w.client.Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		w.t.Fatal(response, err)
	}
	_ = response.Body.Close()
}

// get returns a page of the dashboard, or an answer of its API.
func (w *traffic) get(path string) string {
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.base+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s: %d, %v: %s", path, response.StatusCode, err, body)
	}
	return string(body)
}

// json reads an answer of the API.
func (w *traffic) json(path string, to any) {
	if err := json.Unmarshal([]byte(w.get("/api/v1"+path)), to); err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
}

// call makes a call, and lists it by its answer. An empty name sends no key.
func (w *traffic) call(name, path string, cost int64) {
	w.sent++
	headers := map[string]string{"accept": "*/*"}
	if name != "" {
		headers["x-api-key"] = w.secrets[name].Reveal()
	}
	event, _ := json.Marshal(map[string]any{ // texts always encode
		"type": "REQUEST", "path": path, "httpMethod": "GET", "headers": headers,
		"methodArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET" + path,
		"requestContext": map[string]any{"requestId": fmt.Sprintf("request-%04d", w.sent),
			"identity": map[string]any{"sourceIp": "192.0.2.7"}},
	})
	c := w.tallies[name]
	answer, err := w.Invoke(w.t.Context(), event)
	var failed *lambda.FunctionError
	if errors.As(err, &failed) { // 401
		c.refused++
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var got struct {
		Context struct {
			Denied                    bool
			ViolatedPolicy, Reference string
			ShadowDenied              bool
		}
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		w.t.Fatalf("%v: %s", err, answer)
	}
	switch {
	case !got.Context.Denied:
		c.allowed++
		c.cost += cost
		if got.Context.ShadowDenied {
			c.shadow++
		}
		return
	case got.Context.ViolatedPolicy == "ban":
		c.refused++
	default:
		c.denied++
		c.byLimit[got.Context.ViolatedPolicy]++
	}
	c.references[got.Context.Reference] = true
}

// burst makes calls in one environment, as fast as it answers, but for the last. The
// environments take turns, and sleep in between.
func (w *traffic) burst(n int, name, path string, cost int64) {
	w.checkFunction = w.environments[w.bursts%len(w.environments)]
	w.bursts++
	for i := range n {
		if i == n-1 {
			w.rest(w.t)
		}
		w.call(name, path, cost)
	}
}

// sum adds up all tallies.
func (w *traffic) sum() *tally {
	all := newTally()
	for _, c := range w.tallies {
		all.allowed, all.denied, all.refused = all.allowed+c.allowed, all.denied+c.denied,
			all.refused+c.refused
		all.cost, all.shadow = all.cost+c.cost, all.shadow+c.shadow
		for limit, n := range c.byLimit {
			all.byLimit[limit] += n
		}
	}
	return all
}

// countsInAPI is numbers of calls in an answer.
type countsInAPI struct{ Allowed, Denied, Refused, ShadowDenied, Cost int64 }

func (c *tally) inAPI() countsInAPI {
	return countsInAPI{c.allowed, c.denied, c.refused, c.shadow, c.cost}
}

// Known traffic: bursts that stop, in environments that are frozen between calls and never
// called again, calls of cost 0 and 7, denied by each kind of limit, refused, banned, and
// denied in shadow. Two seconds later every figure of every page, CSV file and API answer
// equals the test's own list.
func TestEveryFigureIsTrue(t *testing.T) {
	w := newTraffic(t)
	w.burst(4, "", "/orders", 1) // such refusals alone may wait for a second
	w.burst(30, "own", "/orders", 1)
	w.burst(7, "route", "/search", 1)
	w.burst(9, "address", "/address", 1)
	w.burst(8, "together", "/together", 1)
	w.burst(13, "team", "/orders", 1)
	w.burst(6, "costs", "/free", 0)
	w.burst(4, "costs", "/big", 7)
	ban := func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) }
	if _, err := registrytest.Update(t.Context(), w.store, w.ids["banned"], "key.ban", byTest,
		ban); err != nil {
		t.Fatal(err)
	}
	w.burst(3, "banned", "/orders", 1)
	if _, err := registrytest.Revoke(t.Context(), w.store, w.ids["revoked"], byTest); err != nil {
		t.Fatal(err)
	}
	w.burst(2, "revoked", "/orders", 1)
	last := time.Now()
	all := w.sum()
	if all.denied < 20 || all.shadow == 0 || all.refused != 9 || len(all.byLimit) != 5 {
		t.Fatalf("the traffic is not what the test needs: %+v", all)
	}
	var overview struct {
		History             struct{ Total countsInAPI }
		Busiest, MostDenied []struct {
			countsInAPI

			Name string
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("counted %+v, made %+v", overview.History.Total, all.inAPI())
		}
	})
	waiting.Until(t, "every call is counted", func() bool {
		w.json("/overview?top=64", &overview)
		return overview.History.Total == all.inAPI()
	})
	t.Logf("counted %s after the last call", time.Since(last).Round(time.Millisecond))

	for _, list := range [][]struct {
		countsInAPI

		Name string
	}{overview.Busiest, overview.MostDenied} {
		for _, one := range list {
			if c := w.tallies[one.Name]; c == nil || one.countsInAPI != c.inAPI() {
				t.Errorf("ranking: %s has %+v, want %+v", one.Name, one.countsInAPI, c)
			}
		}
	}
	if len(overview.Busiest) != len(w.ids) {
		t.Errorf("%d callers are ranked, want %d", len(overview.Busiest), len(w.ids))
	}
	w.overviewPage(all)
	w.keys()
	w.denials(all)
	for name := range w.ids {
		w.caller(name)
	}
	for path, most := range map[string]struct {
		longest  string
		commands int
	}{
		"/":                     {"30d", 450}, // with the calls of each listed caller
		"/keys/" + w.ids["own"]: {"30d", 250},
		"/denials":              {"7d", 250},
	} {
		short, long := w.commands(path+"?range=1h"), w.commands(path+"?range="+most.longest)
		if max(short, long) > most.commands {
			t.Errorf("%s takes %d commands for an hour and %d for %s, want at most %d", path, short, long,
				most.longest, most.commands)
		} else {
			t.Logf("%s: %d commands for an hour, %d for %s", path, short, long, most.longest)
		}
	}
}

// commands returns how many commands a page sends, those of its session included.
func (w *traffic) commands(path string) int {
	total := func() int {
		info, err := w.checkFunction.client.Do(w.t.Context(),
			w.checkFunction.client.B().Info().Section("stats").Build()).ToString()
		_, after, _ := strings.Cut(info, "total_commands_processed:")
		number, _, _ := strings.Cut(after, "\r")
		n, parseErr := strconv.Atoi(number)
		if err := errors.Join(err, parseErr); err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	before := total()
	w.get(path)
	return total() - before - 1
}

// has checks that a page has a text.
func (w *traffic) has(path string, texts ...string) {
	w.t.Helper()
	words := sitetest.InWords(w.get(path))
	for _, text := range texts {
		if !strings.Contains(words, text) {
			w.t.Errorf("%s lacks %q:\n%s", path, text, words)
		}
	}
}

func (c *tally) words() string {
	return fmt.Sprintf("%d allowed, %d denied and %d refused", c.allowed, c.denied, c.refused)
}

func (w *traffic) overviewPage(all *tally) {
	percent := (200*all.denied + all.calls()) / (2 * all.calls()) // rounded
	w.has("/?range=1h", all.words(), fmt.Sprintf("Denied %d %d %%", all.denied, percent),
		fmt.Sprintf("Refused %d", all.refused), fmt.Sprintf("In shadow %d would be denied", all.shadow))
	for _, span := range []string{"5m", "24h", "7d", "30d"} {
		w.has("/?range="+span, all.words())
	}
	search, big := w.tallies["route"], int64(4)
	w.has("/policies", fmt.Sprintf("%d calls, %d denied, 0 refused", search.calls(), search.denied),
		fmt.Sprintf("%d calls, 0 denied, 0 refused", big))
}

// keys compares the list of keys: page, CSV file and API.
func (w *traffic) keys() {
	var listed struct {
		Items []struct {
			Name     string
			States   []string
			LastHour countsInAPI
			DeniedBy []struct{ Limit string }
		}
	}
	w.json("/keys?count=100", &listed)
	rows, err := csv.NewReader(strings.NewReader(w.get("/keys.csv"))).ReadAll()
	if err != nil || len(rows) != len(w.ids)+1 || len(listed.Items) != len(w.ids) {
		w.t.Fatal(len(rows), len(listed.Items), err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	page := sitetest.InWords(w.get("/keys"))
	blocked := sitetest.InWords(w.get("/keys?state=blocked"))
	for i, k := range listed.Items {
		c, row := w.tallies[k.Name], rows[i+1]
		if k.LastHour != c.inAPI() {
			w.t.Errorf("API, %s: got %+v, want %+v", k.Name, k.LastHour, c.inAPI())
		}
		for name, want := range map[string]int64{"lastHour.denied": c.denied, "lastHour.refused": c.refused,
			"lastHour.shadowDenied": c.shadow} {
			if row[column["name"]] != k.Name || row[column[name]] != strconv.FormatInt(want, 10) {
				w.t.Errorf("CSV, %s: %s is %s, want %d", k.Name, name, row[column[name]], want)
			}
		}
		text := fmt.Sprintf("%d allowed, %d denied, %d refused %d %d ", c.allowed, c.denied, c.refused,
			c.calls(), c.denied)
		if !strings.Contains(page, text) {
			w.t.Errorf("the list of keys lacks %q of %s:\n%s", text, k.Name, page)
		}
		// One state of a caller: badge, list, filter and API.
		isBlocked := strings.Contains(strings.Join(k.States, " "), "blocked")
		if isBlocked != (c.denied > 0) || isBlocked != (len(k.DeniedBy) > 0) ||
			isBlocked != strings.Contains(blocked, k.Name+" "+w.ids[k.Name]) ||
			isBlocked != strings.Contains(row[column["states"]], "blocked") {
			w.t.Errorf("%s, denied %d times, has states %v, is denied by %v, CSV: %s", k.Name, c.denied,
				k.States, k.DeniedBy, row[column["states"]])
		}
		for limit := range c.byLimit {
			if len(k.DeniedBy) != 1 || k.DeniedBy[0].Limit != limit || row[column["deniedBy"]] != limit {
				w.t.Errorf("%s is denied by %v, CSV %s, want %s", k.Name, k.DeniedBy,
					row[column["deniedBy"]],
					limit)
			}
		}
	}
}

// denialInAPI is an item of the list of denials.
type denialInAPI struct {
	Key, Cause, Limit, Reference string
	Calls                        int64
	Requests                     []string
}

// denials compares the lists of denials, and what references find.
func (w *traffic) denials(all *tally) {
	var listed struct{ Items []denialInAPI }
	w.json("/denials?count=100", &listed)
	byLimit, refused := map[string]int64{}, int64(0)
	for _, d := range listed.Items {
		if d.Cause == "limit" {
			byLimit[d.Limit] += d.Calls
		} else {
			refused += d.Calls
		}
	}
	anonymous := w.tallies[""].refused // without an entry: they proved nothing
	if fmt.Sprint(byLimit) != fmt.Sprint(all.byLimit) || refused != all.refused-anonymous {
		w.t.Errorf("API: denied %v, refused %d; want %v and %d", byLimit, refused, all.byLimit,
			all.refused-anonymous)
	}
	w.has("/denials", fmt.Sprintf("%d denied and %d refused", all.denied, all.refused),
		fmt.Sprintf("No credential %d", anonymous))
	rows, err := csv.NewReader(strings.NewReader(w.get("/denials.csv"))).ReadAll()
	calls, sum := slices.Index(rows[0], "calls"), int64(0)
	for _, row := range rows[1:] {
		n, parseErr := strconv.ParseInt(row[calls], 10, 64)
		sum, err = sum+n, errors.Join(err, parseErr)
	}
	if err != nil || sum != all.denied+all.refused-anonymous {
		w.t.Errorf("CSV: %d calls, %v, want %d", sum, err, all.denied+all.refused-anonymous)
	}
	for limit, n := range all.byLimit {
		w.has("/denials?limit="+neturl.QueryEscape(limit), fmt.Sprintf("%d denied and 0 refused", n))
	}
	for name, c := range w.tallies {
		calls := int64(0)
		for reference := range c.references {
			var found struct{ Items []denialInAPI }
			w.json("/denials?request="+neturl.QueryEscape(reference), &found)
			if len(found.Items) != 1 || found.Items[0].Key != w.ids[name] ||
				int64(len(found.Items[0].Requests)) != min(20, found.Items[0].Calls) {
				w.t.Fatalf("the reference %q of %s finds %+v", reference, name, found.Items)
			}
			calls += found.Items[0].Calls
			for _, id := range found.Items[0].Requests {
				w.has("/denials?request="+id, name)
			}
		}
		if name != "" && name != "revoked" && calls != c.denied+c.refused {
			w.t.Errorf("the references of %s find %d calls, want %d", name, calls, c.denied+c.refused)
		}
	}
}

// caller compares the page of a key and its usage in the API.
func (w *traffic) caller(name string) {
	c, id := w.tallies[name], w.ids[name]
	var usage struct {
		History struct {
			Total countsInAPI
			Kinds []struct {
				Cause, Limit string
				Calls        int64
			}
		}
	}
	for _, query := range []string{"", "?step=1h&from=" +
		time.Now().UTC().Add(-48*time.Hour).Format(time.RFC3339)} {
		w.json("/keys/"+id+"/usage"+query, &usage)
		if usage.History.Total != c.inAPI() {
			w.t.Errorf("usage%s of %s: got %+v, want %+v", query, name, usage.History.Total, c.inAPI())
		}
	}
	for _, k := range usage.History.Kinds {
		if k.Cause == "limit" && k.Calls != c.byLimit[k.Limit] {
			w.t.Errorf("usage of %s: %d denied by %s, want %d", name, k.Calls, k.Limit, c.byLimit[k.Limit])
		}
	}
	texts := []string{c.words()}
	if n := c.denied + c.refused; n > 0 {
		texts = append(texts, fmt.Sprintf("%d calls ", n))
	}
	if c.denied > 0 {
		texts = append(texts, "denied now")
	}
	w.has("/keys/"+id, texts...)
	w.has("/denials?key="+id, fmt.Sprintf("Denied %d by a limit Refused %d", c.denied, c.refused))
}
