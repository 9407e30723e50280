package dashboard_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

// item is an item of a list, as JSON.
type item map[string]any

// at returns a value within an item, by the names that lead to it.
func (i item) at(path string) any {
	var v any = map[string]any(i)
	for name := range strings.SplitSeq(path, ".") {
		within, _ := v.(map[string]any)
		v = within[name]
	}
	return v
}

func (i item) is(path, value string) bool { return fmt.Sprint(i.at(path)) == value }

// aList is a list of the dashboard and the API.
type aList struct {
	page, api string
	id        func(item) string          // unique
	shown     func(item) string          // in the item's row of the page; nil without a page
	filters   map[string]func(item) bool // by their query, an oracle for the whole list
	commands  int                        // most commands to Valkey for 50 items
}

func names(path string) func(item) string {
	return func(i item) string { return fmt.Sprint(i.at(path)) }
}

var allLists = []aList{
	{page: "/alerts", api: "/crossings", shown: names("limit"), commands: 850,
		id: func(i item) string { return fmt.Sprint(i.at("time"), i.at("subject"), i.at("threshold")) },
		filters: map[string]func(item) bool{
			"key={acme}": func(i item) bool { return i.is("subject", "{acme}") },
			"key=BOLT":   func(i item) bool { return i.is("subject", "{bolt}") },
		}},
	{page: "/groups", api: "/groups", id: names("name"), shown: names("name"),
		commands: 9 * 256, // one flush, however many groups: see registry.Store.Groups
		filters: map[string]func(item) bool{
			"prefix=GROUP1": func(i item) bool {
				return strings.HasPrefix(fmt.Sprint(i.at("name")), "Group1")
			},
			"prefix=zz": func(item) bool { return false },
		}},
	{page: "/denials", api: "/denials", id: names("reference"), shown: names("reference"), commands: 400,
		filters: map[string]func(item) bool{
			"key=acme":         func(i item) bool { return i.is("key", "{acme}") },
			"limit=5+per+hour": func(i item) bool { return i.is("limit", "5 per hour") },
			"cause=ban":        func(i item) bool { return i.is("cause", "ban") },
			"route=search&key=BoL": func(i item) bool {
				return i.is("route", "search") && i.is("key", "{bolt}")
			},
			"plan=free&group=Whale": func(i item) bool {
				return i.is("plan", "free") && i.is("group", "Whale")
			},
			"range=1h": func(i item) bool {
				at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(i.at("time")))
				return err == nil && at.After(time.Now().Truncate(time.Minute).Add(-time.Hour+time.Minute))
			},
		}},
	{page: "/audit", api: "/audit", id: names("number"), shown: names("number"), commands: 850,
		filters: map[string]func(item) bool{
			"action=key.create": func(i item) bool { return i.is("action", "key.create") },
			"subject=policy": func(i item) bool {
				return strings.Contains(fmt.Sprint(i.at("subjects")), "record:policy")
			},
			"subject=ACME": func(i item) bool {
				return strings.Contains(fmt.Sprint(i.at("subjects")), "record:{acme}")
			},
			"by=nobody": func(item) bool { return false },
			"change=3":  func(i item) bool { return i.is("number", "3") },
			"range=7d":  func(item) bool { return true },
		}},
	{page: "/keys", api: "/keys", id: names("id"), shown: names("name"),
		commands: 11 * 256, // two flushes, of the list and of the number of its keys
		filters: map[string]func(item) bool{
			"q=Y+0": func(i item) bool { return strings.Contains(fmt.Sprint(i.at("name")), "y 0") },
			"prefix=KEY": func(i item) bool {
				return strings.HasPrefix(fmt.Sprint(i.at("name")), "key")
			},
			"plan=free":              func(i item) bool { return i.is("plan", "free") },
			"plan=free&group=Group3": func(i item) bool { return i.is("group", "Group3") },
			"tag=eu":                 func(i item) bool { return i.is("tags", "[eu]") },
			"state=overridden":       func(i item) bool { return i.at("override") != nil },
		}},
	{page: "/policies/plans", api: "/plans", id: names("number"), filters: map[string]func(item) bool{}},
	{page: "/policies/routes", api: "/routes", id: names("id"), filters: map[string]func(item) bool{}},
	{page: "/callers", api: "/callers", id: names("id"), shown: names("id"), commands: 850,
		filters: map[string]func(item) bool{"order=today": func(item) bool { return true }}},
}

// fill makes more of everything than a page shows.
func fill(s *sitetest.Site) {
	s.T.Helper()
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = []limits.Route{sitetest.Route("search", "1", "GET /orders/{id}")}
		for i := range 12 {
			set.Plans = append(set.Plans, policy.Plan{Name: fmt.Sprintf("plan %02d", i),
				Limits: []limits.Limit{sitetest.Limit("7 per hour, on search")}})
			set.Routes = append(set.Routes, sitetest.Route(fmt.Sprintf("route-%02d", i), "2",
				fmt.Sprintf("GET /more/%d", i)))
		}
	})
	for i := range 40 {
		name := fmt.Sprintf("key %02d =1+1", i)
		s.Keys.CreateKey(name, "free")
		s.Keys.UpdateKey(name, func(k *policy.Key) {
			if k.Group = fmt.Sprintf("Group%d", i); i%3 == 0 {
				k.Tags = []string{"eu"}
			}
		})
	}
	now := time.Now()
	for i := range 60 {
		c := sampleDenial([]string{"10 per 10 seconds", "5 per hour"}[i%2])
		if i%5 == 0 {
			c.Cause, c.Limit = cause.Ban, ""
		}
		if i%3 == 0 {
			c.Group = "Whale"
		}
		c.Routes, c.Network = c.Routes[:i%2], netip.MustParsePrefix("192.0.2.0/24")
		denyAt(s, []string{"acme", "bolt"}[i/30], now.Add(-time.Duration(2*i)*time.Minute), c)
		id := s.Keys.TokenCaller("https://issuer.example/", strconv.Itoa(i))
		s.Keys.Record(records.Call{Caller: id, Time: now, Cost: 1, Plan: "free"})
	}
	log := crossing.NewStore(s.Keys.Client, slog.New(slog.DiscardHandler))
	for i := range 60 {
		id := s.Keys.IDs[[]string{"acme", "bolt"}[i%2]]
		log.Report(
			s.T.Context(),
			crossing.Call{KeyID: id, Plan: "free", Kind: policy.APIKey},
			[]enforce.Crossing{
				{Limit: sitetest.Limit(fmt.Sprintf("%d per hour", 1000+i)), Used: int64(1000 + i),
					Subject: id, Percent: 100,
					At: now.Add(-time.Duration(i) * time.Second), Reset: time.Hour},
			},
		)
	}
}

// inAPI returns the items of a list, in pages of 7 by their cursor.
func (l *aList) inAPI(s *sitetest.Site, query string) []item {
	s.T.Helper()
	var all []item
	for after := ""; ; {
		text := s.Get("/api/v1"+l.api+"?count=7&"+query+"&after="+url.QueryEscape(after)).
			Wants(s.T, http.StatusOK).Body
		var page struct {
			Items []item
			Next  string
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Items) > 7 {
			s.T.Fatalf("%s: %d items, %v", l.api, len(page.Items), err)
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

// inCSV returns the header and the rows of a list.
func (l *aList) inCSV(s *sitetest.Site, query string) [][]string {
	s.T.Helper()
	rows, err := csv.NewReader(strings.NewReader(s.Get(l.page+".csv?"+query).Wants(s.T,
		http.StatusOK).Body)).ReadAll()
	s.Keys.Must(err)
	return rows
}

var (
	tableRows  = regexp.MustCompile(`(?s)<(?:tbody |table [^>]*)id="[a-z]+" data-rows>(.*?)</table>`)
	rowInTable = regexp.MustCompile(`(?s)<tr[^>]*>(.*?)</tr>`)
	linesOfRow = regexp.MustCompile(`(?s)<tbody[^>]*>(.*?)</tbody>`)
)

// onPages returns the rows of a list on its pages, as HTML.
func (l *aList) onPages(s *sitetest.Site, query string) []string {
	s.T.Helper()
	var all []string
	for path := l.page + "?" + query; path != ""; {
		body := s.Get(path).Wants(s.T, http.StatusOK).Body
		if table := tableRows.FindStringSubmatch(body); table != nil {
			rows := linesOfRow.FindAllString(table[1], -1)
			if rows == nil {
				rows = rowInTable.FindAllString(table[1], -1)
			}
			all = append(all, rows...)
		}
		path = ""
		if next := nextInPage.FindStringSubmatch(body); next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	return all
}

// cellOfJSON returns what a file has for a JSON value, by a way of its own.
func cellOfJSON(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// Every list has every item once, in one order, by the API, in the file and on its pages,
// and each filter selects the same items as an oracle does of the whole list. A page reads
// a bounded number of keys in Valkey.
func TestLists(t *testing.T) {
	s := sitetest.New(t).Login()
	fill(s)
	for _, l := range allLists {
		t.Run(l.page[1:], func(t *testing.T) {
			s.T = t
			whole := l.inAPI(s, "")
			seen := map[string]bool{}
			for _, i := range whole {
				seen[l.id(i)] = true
			}
			if len(seen) != len(whole) || len(whole) < 10 {
				t.Fatalf("%d items, %d different, want 10 or more, all different", len(whole), len(seen))
			}
			l.equal(s, "", whole)
			for query, matches := range l.filters {
				var want []item
				for _, i := range whole {
					if matches(i) {
						want = append(want, i)
					}
				}
				got := l.inAPI(s, query)
				if fmt.Sprint(idsOf(got, l.id)) != fmt.Sprint(idsOf(want, l.id)) {
					t.Errorf("%s selects %q, want %q", query, idsOf(got, l.id), idsOf(want, l.id))
				}
				l.equal(s, query, got)
			}
			if l.shown == nil {
				return
			}
			before := s.Keys.Server.CommandCount()
			s.Get(l.page)
			if n := s.Keys.Server.CommandCount() - before; n > l.commands {
				t.Errorf("a page takes %d commands to Valkey, want up to %d", n, l.commands)
			} else {
				t.Logf("a page takes %d commands to Valkey", n)
			}
		})
	}
}

func idsOf(items []item, id func(item) string) []string {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = id(items[i])
	}
	return ids
}

// equal checks that the file and the pages have the items of the API.
func (l *aList) equal(s *sitetest.Site, query string, items []item) {
	s.T.Helper()
	file := l.inCSV(s, query)
	var rows []string
	if l.shown != nil {
		rows = l.onPages(s, query)
	}
	if len(file) != len(items)+1 || l.shown != nil && len(rows) != len(items) {
		s.T.Fatalf("%q: %d items in the API, %d in the file, %d on the pages", query, len(items),
			len(file)-1, len(rows))
	}
	for i, one := range items {
		for c, cell := range file[i+1] {
			v := one.at(file[0][c])
			if kind := reflect.ValueOf(v).Kind(); kind == reflect.Slice || kind == reflect.Map {
				continue
			}
			if _, isTime := v.(string); isTime && strings.HasPrefix(cell, "'") {
				cell = cell[1:] // keeps a spreadsheet from running it
			}
			if file[0][c] != "changes" && cell != cellOfJSON(v) {
				s.T.Errorf("%q, item %d: %s is %q in the file, %q in the API", query, i, file[0][c], cell,
					cellOfJSON(v))
			}
		}
		if l.shown != nil && !strings.Contains(rows[i], html.EscapeString(l.shown(one))) {
			s.T.Errorf("%q: row %d lacks %q: %s", query, i, l.shown(one), rows[i])
		}
	}
}
