package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// strangerCalls records calls by a caller without a record.
func (r *testRegistry) strangerCalls(id string, at time.Time, allowed, denied int) {
	r.t.Helper()
	recorder := usage.NewRecorder(usage.Options{}, func() time.Time { return at })
	for i := range allowed + denied {
		o := usage.Outcome{Subject: id, Cost: 1, Time: at}
		if i >= allowed {
			o.Verdict = usage.Denied
		}
		recorder.Record(o)
	}
	if report := recorder.Flush(context.Background(), r.client); report.Err != nil {
		r.t.Fatal(report.Err)
	}
}

// adoption is the form that makes a record, filled in; fields are given as name and text
// in turn.
func adoption(fields ...string) url.Values {
	return with(url.Values{"kind": {"token"}, "next": {"limits"}, "name": {"Ada at the bank"}, "reason": {"asked for"}}, fields...)
}

// Callers without a record are listed, latest first, those with one are not.
func TestCallersWithoutARecord(t *testing.T) {
	s := newSite(t).login()
	ada, address := s.keys.TokenCaller("https://issuer.example/", "ada"), s.keys.AddressCaller(netip.MustParsePrefix("192.0.2.7/32"))
	s.get("/callers").wants(t, http.StatusOK, "No callers without a record", "$TOKEN")
	s.keys.called("acme", time.Now(), 3, 0)
	s.keys.strangerCalls(ada, time.Now().Add(-10*time.Minute), 12, 5)
	s.keys.strangerCalls(address, time.Now().Add(-time.Minute), 1, 0)
	body := s.get("/callers").wants(t, http.StatusOK, ada, address, `href="/callers/`+ada, ">17<", ">5<").body
	if strings.Contains(body, "{acme}") || strings.Index(body, ada) < strings.Index(body, address) {
		t.Errorf("a key is listed, or the order is wrong:\n%s", body)
	}
	s.refresh("/callers").wants(t, http.StatusOK, ada)
	s.get("/callers/"+ada).wants(t, http.StatusOK, "12 allowed and 5 blocked", "/callers/new?id="+ada)
	s.get("/").wants(t, http.StatusOK, `href="/callers/`+ada, "no key")
	if to := s.get("/callers/{acme}").wants(t, http.StatusSeeOther).Header.Get("Location"); to != "/keys/{acme}" {
		t.Errorf("a caller with a record is shown at %s", to)
	}
	s.get("/callers/%7Btag%7D").wants(t, http.StatusNotFound)
	s.get("/callers?after=nonsense!").wants(t, http.StatusBadRequest)
	if body := s.loginAs(testViewer).get("/callers/"+ada).wants(t, http.StatusOK).body; strings.Contains(body, "Override or ban") {
		t.Error("a viewer is offered a change")
	}
}

var nextInPage = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// Many keys before a caller without a record do not hide it: the next page looks on.
func TestCallersBehindManyKeys(t *testing.T) {
	s := newSite(t).login()
	for i := range callersPerScan + 100 {
		s.keys.strangerCalls(fmt.Sprintf("caller-without-rec%04d", i), time.Now().Add(-time.Duration(i)*time.Second), 1, 0)
	}
	seen, path := map[string]bool{}, "/callers"
	for path != "" {
		body := s.get(path).wants(t, http.StatusOK).body
		for _, link := range addressesIn(body) {
			if id, ok := strings.CutPrefix(link, "/callers/"); ok && id != "new" {
				seen[id] = true
			}
		}
		path = ""
		if next := nextInPage.FindStringSubmatch(body); next != nil {
			path = next[1]
		}
	}
	if len(seen) != callersPerScan+100 {
		t.Errorf("the pages have %d callers, want %d", len(seen), callersPerScan+100)
	}
}

// A caller is found by what people know of it, gets an override, and the very next check
// obeys; then a ban.
func TestAdoptToken(t *testing.T) {
	s := newSite(t).login()
	s.keys.save(func(set *policy.Set) { set.TokenPlan = "free" })
	id := s.keys.TokenCaller("https://issuer.example/", "ada")
	checker := enforce.NewChecker(s.keys.client, testPepper)
	check := func() enforce.Result {
		t.Helper()
		c, err := checker.Check(t.Context(), enforce.Call{Kind: policy.Token, Subject: id}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := check(); !c.Allowed || c.Limits[0].Limit != per(10, 10*time.Second) {
		t.Fatalf("before: %+v", c)
	}
	form := adoption("issuer", "https://issuer.example/", "holder", "ada")
	if to := s.post("/callers/new", form).wants(t, http.StatusSeeOther).Header.Get("Location"); to != "/keys/"+id+"/limits" {
		t.Fatalf("goes to %s", to)
	}
	s.get("/keys/"+id+"/limits").wants(t, http.StatusOK, "Ada at the bank", "for all callers of its kind", `value="10"`)
	s.get("/keys/"+id).wants(t, http.StatusOK, "From the plan that the token names, else from the one for tokens that name none: free.",
		"vouch for: token")
	s.post("/keys/"+id+"/limits", limitsOf(1, [4]string{"1", "1", "hour", "log"})).wants(t, http.StatusSeeOther)
	if c := check(); c.Allowed || c.Name != "Ada at the bank" || c.Source != "override" {
		t.Errorf("after the override: %+v", c)
	}
	s.post("/keys/"+id+"/ban", url.Values{"version": {"2"}, "lasts": {"365d"}, "reason": {"abuse"}}).wants(t, http.StatusSeeOther)
	if c := check(); c.Allowed || c.BannedUntil.IsZero() {
		t.Errorf("after the ban: %+v", c)
	}
	s.post("/keys/"+id+"/edit", url.Values{"version": {"3"}, "name": {"Ada"}, "plan": {""}}).wants(t, http.StatusSeeOther)
	s.get("/keys?q=ada").wants(t, http.StatusOK, ">Ada</bdi>", "banned")
	s.get("/audit?what=key.adopt").wants(t, http.StatusOK, "Ada at the bank", "asked for")
}

// An address stands for the network that the check function counts it with; a second try
// finds the record.
func TestAdoptAddress(t *testing.T) {
	s := newSite(t).login()
	for text, network := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"::ffff:192.0.2.9": "192.0.2.9/32", "198.51.100.77/24": "198.51.100.0/24",
	} {
		id := s.keys.AddressCaller(netip.MustParsePrefix(network))
		form := adoption("kind", "address", "address", text, "next", "ban")
		for range 2 {
			if to := s.post("/callers/new", form).wants(t, http.StatusSeeOther).Header.Get("Location"); to != "/keys/"+id+"/ban" {
				t.Errorf("%s goes to %s", text, to)
			}
		}
		k, err := s.keys.Get(t.Context(), id)
		if err != nil || k.Kind != policy.Address || k.Version != 1 {
			t.Errorf("%s: %+v, %v", text, k, err)
		}
	}
	s.get("/keys").wants(t, http.StatusOK, "Ada at the bank")
	if n := strings.Count(s.get("/keys").body, "Ada at the bank</bdi>"); n != 4 {
		t.Errorf("listed %d times, want 4", n)
	}
}

// A caller from the list comes with its id. What is typed wrong is said at its field, and
// nothing is written.
func TestAdoptRefused(t *testing.T) {
	s := newSite(t).login()
	id := s.keys.TokenCaller("i", "s")
	s.get("/callers/new?id="+id).wants(t, http.StatusOK, `value="`+id+`"`)
	for field, form := range map[string]url.Values{
		"id":      adoption("id", "acme"),
		"issuer":  adoption("holder", "ada"),
		"holder":  adoption("issuer", "https://issuer.example/"),
		"address": adoption("kind", "address", "address", "203.0.113.0.7"),
		"kind":    adoption("id", id, "kind", "key"),
		"next":    adoption("id", id, "next", "../../settings"),
		"name":    adoption("id", id, "name", " "),
		"reason":  adoption("id", id, "reason", ""),
	} {
		s.post("/callers/new", form).wants(t, http.StatusUnprocessableEntity, `id="`+field+`-error"`)
	}
	s.post("/callers/new", adoption("kind", "address", "address", "fe80::1%eth0")).wants(t, http.StatusUnprocessableEntity, `id="address-error"`)
	if s.keys.written() != 0 {
		t.Error("it was written")
	}
	s.post("/callers/new", adoption("id", id)).wants(t, http.StatusSeeOther)
	if s.keys.written() != 1 {
		t.Errorf("%d entries, want 1", s.keys.written())
	}
}

// The latest denials stand on the page of the key, newest first.
func TestRecentDenials(t *testing.T) {
	s := newSite(t).login()
	s.get("/keys/{acme}").wants(t, http.StatusOK, "None in the last hour.")
	now := time.Now()
	s.keys.called("acme", now.Add(-30*time.Minute), 12, 7)
	s.keys.called("acme", now.Add(-5*time.Minute), 1, 3)
	minute := func(ago time.Duration) string { return ">" + now.Add(-ago).UTC().Format("2006-01-02 15:04") }
	_, rows, _ := strings.Cut(s.get("/keys/{acme}").wants(t, http.StatusOK).body, "Recent denials")
	early, late := strings.Index(rows, minute(30*time.Minute)), strings.Index(rows, minute(5*time.Minute))
	if late < 0 || early < late {
		t.Errorf("the denials of 30 minutes ago stand at %d, those of 5 minutes ago at %d:\n%s", early, late, rows)
	}
}
