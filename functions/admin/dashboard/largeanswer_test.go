package dashboard_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// maxAnswer is what a Lambda function can answer: 6 MB, of base64 for a client that accepts
// no compression.
const maxAnswer = 6 << 20 / 4 * 3

// savedOften returns a site whose audit has saves of a policy of about 900 kB, and their
// number.
func savedOften(t *testing.T) (*sitetest.Site, int) {
	t.Helper()
	s := sitetest.New(t).Login()
	opens := make([]route.Pattern, policy.MaxOpens)
	for i := range opens {
		opens[i] = route.Pattern{Method: "GET", Path: fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 100))}
	}
	s.Keys.Save(func(set *policy.Set) {
		for i := range 300 {
			set.Plans = append(set.Plans, policy.Plan{Name: fmt.Sprintf("plan %d", i+1), Opens: opens})
		}
	})
	const saves = 8
	for i := range saves {
		s.Keys.Save(func(set *policy.Set) {
			set.Plans[1].Limits = []limits.Limit{sitetest.Per(int64(20+i), time.Minute)}
		})
	}
	return s, saves
}

// plain requests a path without compression.
func plain(s *sitetest.Site, path string) sitetest.Reply {
	s.T.Helper()
	identity := http.Header{"Accept-Encoding": {"identity"}}
	got := s.Do(http.MethodGet, path, nil, identity).Wants(s.T, http.StatusOK)
	if len(got.Body) > maxAnswer {
		s.T.Errorf("%s answers %d bytes, want up to %d", path, len(got.Body), maxAnswer)
	}
	return got
}

// The audit of large policies ends each answer below the maximum of Lambda, and says how to
// go on: no entry is left out or repeated.
func TestLargeAudit(t *testing.T) {
	s, saves := savedOften(t)
	var fromCSV, fromJSON []string
	for next := "/audit.csv?subject=policy"; next != ""; {
		rows, err := csv.NewReader(strings.NewReader(plain(s, next).Body)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		next = ""
		for _, row := range rows[1:] {
			if more, found := strings.CutPrefix(row[0], "More rows follow: "); found {
				next = more
				continue
			}
			fromCSV = append(fromCSV, row[0])
		}
	}
	for after, more := "", true; more; more = after != "" {
		var page struct {
			Items []struct{ Number uint64 }
			Next  string
		}
		text := plain(s, "/api/v1/audit?subject=policy&count=500&after="+url.QueryEscape(after)).Body
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			fromJSON = append(fromJSON, fmt.Sprint(e.Number))
		}
		after = page.Next
	}
	plain(s, "/audit?subject=policy")
	if len(fromJSON) < saves || !slices.Equal(fromCSV, fromJSON) {
		t.Errorf("got %q by CSV, %q by JSON, want the same %d or more", fromCSV, fromJSON, saves)
	}
	slices.Sort(fromJSON)
	if n := len(slices.Compact(fromJSON)); n != len(fromCSV) {
		t.Errorf("got %d different entries of %d", n, len(fromCSV))
	}
}

// A page of keys ends below the maximum of Lambda, however large the keys are.
func TestLargeKeys(t *testing.T) {
	s := sitetest.New(t).Login()
	opens := make([]route.Pattern, policy.MaxOpens)
	for i := range opens {
		opens[i] = route.Pattern{Method: "GET", Path: fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 500))}
	}
	const count = 500
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("large %d", i)
	}
	s.Keys.CreateNamed("free", names...)
	s.Keys.UpdateKeys(func(k *policy.Key) { k.Opens = opens }, names...)
	found := 0
	for after, more := "", true; more; more = after != "" {
		var page struct {
			Items []struct{ Number uint64 }
			Next  string
		}
		text := plain(s, "/api/v1/keys?prefix=large&count=500&after="+url.QueryEscape(after)).Body
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		found, after = found+len(page.Items), page.Next
	}
	if found != count {
		t.Errorf("got %d keys on all pages, want %d", found, count)
	}
	plain(s, "/keys.csv")
}

// Three full lists of networks fit into the form for all callers.
func TestLongLists(t *testing.T) {
	s := sitetest.New(t).Login()
	var list strings.Builder
	for i := 0; list.Len() < 29_000; i++ {
		fmt.Fprintf(&list, "10.%d.%d.0/24\n", i/256, i%256)
	}
	form := url.Values{"version": {"{policy#}"}, "reason": {"many"}, "deny": {list.String()},
		"allow": {list.String()}, "exempt": {list.String()}, "action": {"save"}}
	if got := s.Post("/policies/all", form); got.StatusCode == http.StatusRequestEntityTooLarge {
		t.Errorf("got %d for lists of %d characters", got.StatusCode, list.Len())
	}
}
