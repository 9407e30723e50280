package limits

import (
	"strings"
	"testing"
)

// Each text is read, and printed in its usual form; the usual form prints as itself.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"60 per 10 seconds":                                              "",
		"20 per minute, on search":                                       "",
		"1,000 per second, together":                                     "",
		"200 per minute, each group":                                     "",
		"30,000 input per minute":                                        "",
		"100 per minute, each address":                                   "",
		"5 calls per 5 seconds, on messages, each {channel}":             "",
		"1 per second, on tickets, each caller and {ticket}":             "",
		"20 per minute, on tier2, each caller and pattern":               "",
		"40 per minute, each address, shadow":                            "",
		"20 at once":                                                     "",
		"4 at once, on mail, each caller and {mailbox}, up to 5 minutes": "",
		"100 at once, each group, shadow":                                "",
		"no limit at once, on search":                                    "",
		"20 calls at once, up to 30 s":                                   "20 at once",
		"5,000 per hour, except search":                                  "",
		"80 calls per minute, on writes, except health, except x1":       "",
		"40 per 20 seconds, token bucket":                                "",
		"100 per 10 seconds, counter":                                    "",
		"10 per 2 minutes, fixed window":                                 "",
		"1,000 per calendar month (Europe/Berlin)":                       "",
		"1,000 per calendar day":                                         "",
		"10,000 per billing month":                                       "",
		"10,000 input per billing month, each group, notify at 80 %":     "",
		"100 per minute, denied calls count":                             "",
		"100 per minute, notify at 50/80/100 %":                          "",
		"10 per minute, on POST /export":                                 "",
		"10 per minute, on /status":                                      "",
		"10 per minute, on abcdef1234/prod GET /orders/{id}":             "",
		"10 per minute, on GET /a%2Cb":                                   "",
		"no limit, on search":                                            "",
		"no limit calls":                                                 "",
		"no limit":                                                       "",
		"300 per 250 milliseconds":                                       "",
		"50 per minute, on search, except GET /find/{q}":                 "",

		"60  PER 10  Seconds":                      "60 per 10 seconds",
		"1 call per second":                        "1 calls per second",
		"500 a Billing Month":                      "500 per billing month",
		"5 calls/second":                           "5 calls per second",
		"100 tokens/minute":                        "100 tokens per minute",
		"10/s":                                     "10 per second",
		"10 / 15min":                               "10 per 15 minutes",
		"20 per 15 min, On search":                 "20 per 15 minutes, on search",
		"1 000 000 every day":                      "1,000,000 per day",
		"1_000 an hour":                            "1,000 per hour",
		"90 per 120 seconds":                       "90 per 2 minutes",
		"20 per minute, shadow, on search":         "20 per minute, on search, shadow",
		"20 per minute, except b, except a":        "20 per minute, except a, except b",
		"20 per minute, notify at 50, 80, 100 %":   "20 per minute, notify at 50/80/100 %",
		"20 per minute, token-bucket":              "20 per minute, token bucket",
		"20 per minute, exact":                     "20 per minute",
		"1,000 per calendar month (UTC)":           "1,000 per calendar month",
		"10 per minute, on post /export":           "10 per minute, on POST /export",
		"10 per minute, on * /status":              "10 per minute, on /status",
		"10 per minute, Each Caller, fixed-window": "10 per minute, each caller, fixed window",
		"30 per minute, on POST /export,shadow":    "30 per minute, on POST /export, shadow",
	} {
		if want == "" {
			want = text
		}
		l, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := l.String(); got != want {
			t.Errorf("%q: printed as %q, want %q", text, got, want)
		}
		if again, err := Parse(l.String()); err != nil || !again.Equal(l) {
			t.Errorf("%q: printed as %q, which is read as %+v, %v", text, l, again, err)
		}
		if errs := l.Errors(); len(errs) > 0 {
			t.Errorf("%q: %v", text, errs)
		}
	}
}

// A text that is no limit is refused with what to write.
func TestWordsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                              "is not a limit",
		"per minute":                                    "is not a limit",
		"1k per second":                                 "write 1,000",
		"1,00 per second":                               "not a whole number",
		"10 requests per minute":                        `write "10 calls per minute", which counts each call as 1, or "10 per minute"`,
		"10 req/s":                                      `"10 calls per second"`,
		"100r/m":                                        `"100 calls per minute"`,
		"10 cost per minute":                            "is a word of every limit",
		"10 GET per minute":                             "is a method",
		"5 input per minute per minute":                 "is not a limit",
		"20 per minute on search":                       `write "20 per minute, on search"`,
		"20 per minute each address":                    `write "20 per minute, each address"`,
		"20 per minute,":                                "ends with a comma",
		"20 per minute, , shadow":                       "two commas",
		"20 per minute, on search, export":              "give a route both patterns, or write two limits",
		"20 per minute, on search, on export":           "second",
		"20 per minute, each caller, each group":        "second",
		"20 per minute, together, each {x}":             "second",
		"20 per minute, counter, token bucket":          "second",
		"20 per minute, shadow, shadow":                 "second",
		"20 per minute, on search and export":           "on search and on export in two limits",
		"20 per minute, except health and search":       "except health, except search",
		"20 per minute, on GET":                         "write GET /*",
		"20 per minute, on":                             "is no mark",
		"20 per minute, on search shadow":               "is a comma missing after search?",
		"20 per minute, each ip":                        "each address",
		"20 per minute, each key":                       "each caller",
		"20 per minute, each user":                      "each caller",
		"20 per minute, each route":                     "each caller and pattern",
		"20 per minute, per caller":                     "each caller",
		"20 per minute, each {channel+}":                "one segment",
		"20 per minute, each {}":                        "parameter's name",
		"20 per minute, each channel":                   "{parameter}",
		"20 per minute, 5,000 slots":                    "limits to 1,000 are exact",
		"20 per minute, 5 per second":                   "two limits",
		"20 per minute, leaky bucket":                   "token bucket",
		"20 per minute, sliding window":                 "leave it out",
		"20 per minute, notify at eighty":               "percentages",
		"20 per week":                                   "per calendar week",
		"20 per 2 weeks":                                "per 14 days",
		"20 per fortnight":                              "not a time",
		"20 per calendar fortnight":                     "is not one of",
		"100 tokens at once":                            `leave out "tokens"`,
		"1k at once":                                    "in digits",
		"20 at once, up to soon":                        "not a time",
		"20 at once, 5 per second":                      "two limits",
		"20 per minute, up to 5 minutes":                "belongs to a limit at once",
		"on search":                                     "is a mark of a limit",
		"shadow":                                        "is a mark of a limit",
		"20 per 0 seconds":                              "1 millisecond to 366 days",
		"20 per 400 days":                               "1 millisecond to 366 days",
		"1,000 calls per minute, each caller and {a b}": "parameter's name",
	} {
		l, err := Parse(text)
		if err == nil {
			t.Errorf("%q is read as %q, want an error with %q", text, l, want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, want %q in it", text, err, want)
		}
	}
}

// The billing day of a key is written as a day, and a zone in parentheses.
func TestBilling(t *testing.T) {
	for text, want := range map[string]string{"": "", "15": "15", " 31 ( Asia/Tokyo )": "31 (Asia/Tokyo)",
		"1 (UTC)": "1"} {
		b, err := ParseBilling(text)
		if err != nil || b.String() != want {
			t.Errorf("%q: got %q, %v, want %q", text, b, err, want)
		}
	}
	for text, want := range map[string]string{"0": "", "32": "must be 1 to 31", "-1": "must be 1 to 31",
		"Monday": "write a day", "15 (Europe/Berlin": "write a day", "15 (Mars)": "IANA time zone"} {
		if _, err := ParseBilling(text); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
