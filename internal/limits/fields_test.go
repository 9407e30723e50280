package limits

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// The words and the fields of a limit are read as the same limit.
func TestFields(t *testing.T) {
	for fields, words := range map[string]string{
		`{"requests":30,"unit":"calls","window":"1m","on":"messages","except":["health"],` +
			`"each":"caller and {channel}","countDenied":false,"notify":[80],"shadow":true}`: "30 calls per minute, on messages, except health, each caller and {channel}, notify at 80 %, shadow",
		`{"requests":1000,"window":"1s","together":true}`:                          "1,000 per second, together",
		`{"requests":1000,"calendar":"month","zone":"Europe/Berlin"}`:              "1,000 per calendar month (Europe/Berlin)",
		`{"requests":10,"window":"20s","algorithm":"token-bucket"}`:                "10 per 20 seconds, token bucket",
		`{"requests":10,"window":"1m","on":"GET /a,b","each":"address"}`:           "10 per minute, on GET /a%2Cb, each address",
		`{"noLimit":true,"on":"search"}`:                                           "no limit, on search",
		`{"atOnce":20,"upTo":"5m","each":"group"}`:                                 "20 at once, each group, up to 5 minutes",
		`{"atOnce":20,"unit":"calls"}`:                                             "20 at once",
		`{"noLimit":true,"unit":"at once"}`:                                        "no limit at once",
		`"60 per 10 seconds"`:                                                      "60 per 10 seconds",
		`{"requests":10,"window":"1d","countDenied":true,"each":"caller"}`:         "10 per day, each caller, denied calls count",
		`{"requests":10,"window":"1m","except":["b","a"],"algorithm":"counter"}`:   "10 per minute, except a, except b, counter",
		`{"requests":10,"window":"1m","on":"t","each":"caller and pattern"}`:       "10 per minute, on t, each caller and pattern",
		`{"requests":10,"calendar":"day","zone":"UTC","algorithm":"fixed-window"}`: "10 per calendar day",
	} {
		var l Limit
		if err := json.Unmarshal([]byte(fields), &l); err != nil || l.String() != words {
			t.Errorf("%s: read as %q, %v, want %q", fields, l, err, words)
			continue
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var again Limit
		if err := json.Unmarshal(text, &again); err != nil || !again.Equal(l) {
			t.Errorf("%s: written as %s, which is read as %q, %v", fields, text, again, err)
		}
	}
}

// A field that a limit does not have is refused with what to write instead.
func TestFieldsRefused(t *testing.T) {
	for fields, want := range map[string]string{
		`{"requests":1,"window":"1m","slots":100}`:                    "slots is gone",
		`{"requests":1,"window":"1m","mode":"shadow"}`:                `"shadow": true`,
		`{"requests":1,"window":"1m","counts":"calls"}`:               `"unit": "calls"`,
		`{"limit":1,"window":"1m"}`:                                   `"requests"`,
		`{"requests":1,"window":"1m","unit":"requests"}`:              "write calls",
		`{"atOnce":20,"window":"5m"}`:                                 "leave these out",
		`{"requests":20,"window":"5m","upTo":"5m"}`:                   "without atOnce",
		`{"requests":1,"window":"1m","each":"group","together":true}`: "leave out one",
		`{"requests":1,"window":"1m","each":"ip"}`:                    "each address",
		`{"requests":1,"window":"fast"}`:                              "window",
		`{"requests":1,"window":"1m","algorithm":"magic"}`:            "algorithm",
		`{"requests":1,"window":"1m","0":null}`:                       "write 1000",
		`{"requests":1,"window":"1m","true":"search"}`:                `"on" in quotes`,
		`{"requests":1,"window":"1m","x":1}`:                          "not a field",
		`{"requests":1,"window":"1m","on":"a b"}`:                     "comma",
	} {
		var l Limit
		if err := json.Unmarshal([]byte(fields), &l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", fields, err, want)
		}
	}
}

// anyLimit draws limits, most of them valid.
func anyLimit() *rapid.Generator[Limit] {
	return rapid.Custom(func(t *rapid.T) Limit {
		on := []string{"", "search", "GET /a/{x}", "/b", "POST /a%2Cb"}
		l := Limit{
			Requests: rapid.Int64Range(1, MaxRequests).Draw(t, "requests"),
			Unit:     rapid.SampledFrom([]string{Cost, Cost, Calls, "input", "Out.put-2"}).Draw(t, "unit"),
			Who:      Who(rapid.IntRange(0, int(lastWho)).Draw(t, "who")),
			On:       rapid.SampledFrom(on).Draw(t, "on"),
			Except:   rapid.SampledFrom([][]string{nil, {"health"}, {"GET /c", "health"}}).Draw(t, "except"),
			Shadow:   rapid.Bool().Draw(t, "shadow"),
		}
		if l.Who == EachParam || l.Who == CallerParam {
			l.Param = "x"
		}
		if rapid.IntRange(0, 3).Draw(t, "calendar") == 0 {
			l.Algorithm = limiter.FixedWindow
			l.Calendar = rapid.SampledFrom(calendar.Periods()).Draw(t, "period")
			zones := []string{"", "Europe/Berlin", "America/Port-au-Prince"}
			if zone := rapid.SampledFrom(zones).Draw(t, "zone"); l.Calendar != calendar.BillingMonth {
				l.Zone = zone
			}
		} else {
			l.Algorithm = rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm")
			size := rapid.SampledFrom(windowUnits).Draw(t, "unit of the window").size
			l.Window = size * time.Duration(rapid.IntRange(1, 366).Draw(t, "window"))
		}
		if rapid.IntRange(0, 4).Draw(t, "extra") == 0 {
			l.Notify = []int{50, 80, 100}
		}
		l.CountDenied = rapid.IntRange(0, 9).Draw(t, "denied") == 0
		return l
	})
}

// Every limit is read from its words and from its fields as it was.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit().Draw(t, "limit")
		read, err := Parse(l.String())
		if err != nil || !read.Equal(l) {
			t.Fatalf("%q is read as %q, %v", l, read, err)
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var again Limit
		if err := json.Unmarshal(text, &again); err != nil || !again.Equal(l) {
			t.Fatalf("%q is written as %s, which is read as %q, %v", l, text, again, err)
		}
	})
}
