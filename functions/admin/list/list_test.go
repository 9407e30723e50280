package list

import (
	"encoding/csv"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

type query struct {
	Key   string `query:"key" maxLength:"5"`
	Cause string `query:"cause" enum:"limit,ban"`
	Period
	Paging
}

// A query survives its own values, whatever its parameters; without any, it has defaults.
func TestQueryRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 13, 0, 0, time.UTC)
	for text, want := range map[string]query{
		"":                           {Paging: Paging{Count: 50}},
		"key=+äöü12+&after=x&live=5": {Key: "äöü12", Paging: Paging{"x", 50}},
		"cause=ban&from=2026-11-21T00:13&count=7": {Cause: "ban", Period: Period{From: at},
			Paging: Paging{Count: 7}},
		"range=7d": {Period: Period{Range: "7d"}, Paging: Paging{Count: 50}},
	} {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Read[query](values)
		if err != nil || *q != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, q, err, want)
		}
		again, err := Read[query](Values(q))
		if want.Paging = (Paging{Count: 50}); err != nil || *again != want {
			t.Errorf("%s: its values give %+v, %v", text, again, err)
		}
	}
}

// An error names the parameter and the bound.
func TestInvalidParameters(t *testing.T) {
	for text, want := range map[string]string{
		"key=123456":     "key must have at most 5 characters",
		"cause=anger":    "cause must be one of limit, ban",
		"from=yesterday": "from must be a date and a time, such as 2026-11-21T00:13",
		"count=0":        "count must be a number from 1 to 500", "count=501": "count must be a number",
	} {
		values, _ := url.ParseQuery(text)
		_, err := Read[query](values)
		if invalid := (*InvalidError)(nil); !errors.As(err, &invalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// A day is bounded by midnight in UTC; from and to replace a named range.
func TestPeriods(t *testing.T) {
	now := time.Date(2026, 11, 21, 17, 30, 0, 0, time.UTC)
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ in, want Period }{
		{Period{}, Period{}},
		{Period{Range: "today"}, Period{From: day}},
		{Period{Range: "yesterday"}, Period{From: day.AddDate(0, 0, -1), To: day}},
		{Period{Range: "1h"}, Period{From: now.Add(-time.Hour)}},
		{Period{Range: "24h"}, Period{From: now.AddDate(0, 0, -1)}},
		{Period{Range: "7d"}, Period{From: now.AddDate(0, 0, -7)}},
		{Period{From: day, To: now, Range: "1h"}, Period{From: day, To: now}},
	} {
		if from, to, err := c.in.Bounds(now); err != nil || from != c.want.From || to != c.want.To {
			t.Errorf("%+v: got %v to %v, %v, want %+v", c.in, from, to, err, c.want)
		}
	}
	backwards := Period{From: now, To: day}
	if _, _, err := backwards.Bounds(now); err == nil {
		t.Error("a period that ends before it begins is accepted")
	}
}

type actor struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

type item struct {
	row
	Time    time.Time    `json:"time"`
	By      actor        `json:"by"`
	Other   *actor       `json:"other,omitempty"`
	Network netip.Prefix `json:"network,omitzero"`
	Tags    []string     `json:"tags"`
	Calls   int64        `json:"calls"`
	Owed    *int64       `json:"owed"`
	All     []actor      `json:"all"`
	hidden  string
	Gone    string `json:"-"`
}

// A file has a column for each JSON value of an item, also of values within others.
func TestFileHasTheValuesOfJSON(t *testing.T) {
	three := int64(3)
	f := NewFile[item]()
	f.Row(item{row: row{ID: "1", Name: "a, b"}, Time: time.Date(2026, 11, 21, 0, 13, 25, 5e6, time.UTC),
		By: actor{"user", "ada"}, Network: netip.MustParsePrefix("192.0.2.0/24"), Tags: []string{"x", "y"},
		Owed: &three, All: []actor{{"token", "ci"}}, hidden: "h", Gone: "g"})
	f.Row(item{Other: &actor{Kind: "user"}})
	got, err := csv.NewReader(strings.NewReader(f.text.String())).ReadAll()
	want := [][]string{
		{"id", "name", "reason", "time", "by.kind", "by.name", "other.kind", "other.name", "network", "tags",
			"calls", "owed", "all"},
		{"1", "a, b", "", "2026-11-21T00:13:25.005Z", "user", "ada", "", "", "192.0.2.0/24", "x; y", "0", "3",
			`{"kind":"token","name":"ci"}`},
		{"", "", "", "", "", "", "user", "", "", "", "0", "", ""},
	}
	if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
