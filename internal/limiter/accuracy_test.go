package limiter

import (
	"cmp"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the table of docs/algorithms.md")

const (
	accuracyDocument = "../../docs/algorithms.md"
	accuracyBegin    = "<!-- accuracy:begin -->\n"
	accuracyEnd      = "<!-- accuracy:end -->"
)

// accuracyLimit is the limit whose false allows and denials the table has. All limits are
// per minute.
const accuracyLimit = 100

// accuracyAlgorithms are the rows of the table.
var accuracyAlgorithms = []struct {
	title string
	limit Limit
}{
	{"`log`", Limit{}},
	{"`log`, `countDenied`", Limit{CountDenied: true}},
	{"`counter`", Limit{Algorithm: Counter}},
	{"`token-bucket` (GCRA, leaky bucket)", Limit{Algorithm: TokenBucket}},
	{"`fixed-window`", Limit{Algorithm: FixedWindow}},
}

// accuracyTraffic are the columns of the table: calls at a limit in the windows of
// windowsOf, as microseconds since a boundary of aligned windows, in time order.
var accuracyTraffic = []struct {
	title string
	calls func(limit int64) []int64
}{
	{"Poisson 1×", func(limit int64) []int64 { return poisson(5000, windowsOf(limit)) }},
	{"Poisson 2×", func(limit int64) []int64 { return poisson(10_000, windowsOf(limit)) }},
	{"on/off 10×", func(limit int64) []int64 {
		const on, cycle = accuracyWindow * 33 / 100, accuracyWindow * 111 / 100
		cycles := windowsOf(limit) / cycle
		calls := poisson(limit*33/10*cycles, on*cycles)
		for i, at := range calls {
			calls[i] = at/on*cycle + at%on
		}
		return calls
	}},
	{"boundary 10×", func(limit int64) (calls []int64) {
		for from := int64(0); len(calls) < 5000; from += 4 * accuracyWindow {
			edge, part := from+2*accuracyWindow, accuracyWindow/1000
			calls = even(calls, edge-part, part, 2*limit)
			calls = even(calls, edge, part, 2*limit)
			calls = even(calls, edge+part, accuracyWindow-part, 10*limit)
		}
		return calls
	}},
}

const accuracyWindow = int64(time.Minute / time.Microsecond)

// windowsOf returns the length of the windows in which a limit admits 5,000 calls, at
// least 11.
func windowsOf(limit int64) int64 { return max(11, 5000/limit) * accuracyWindow }

// poisson returns n calls at independent random instants of [0, length).
func poisson(n, length int64) []int64 {
	random := rand.NewPCG(20170607, 0)
	calls := make([]int64, n)
	for i := range calls {
		at, _ := bits.Mul64(random.Uint64(), uint64(length))
		calls[i] = int64(at)
	}
	slices.Sort(calls)
	return calls
}

// even appends n calls, evenly spread over [from, from+length).
func even(calls []int64, from, length, n int64) []int64 {
	for i := range n {
		calls = append(calls, from+i*length/n)
	}
	return calls
}

// exactLog has the instants of admitted calls. It shares no code with the models.
type exactLog []int64

// within returns the number of calls in the rolling window that ends at now.
func (l exactLog) within(now int64) int64 {
	after, _ := slices.BinarySearchFunc(l, now-accuracyWindow, func(at, t int64) int {
		return cmp.Compare(at, t+1)
	})
	return int64(len(l) - after)
}

// accuracy is how an algorithm decides calls, compared with an exact log.
type accuracy struct{ calls, falseAllows, falseDenials, worst int64 }

func measureAccuracy(t *testing.T, l Limit, calls []int64) (a accuracy) {
	t.Helper()
	l.Window = time.Minute
	var model Model
	var exact, own exactLog
	for _, at := range calls {
		now := accuracyWindow*30_000_000 + at
		allows := exact.within(now) < l.Requests
		if allows {
			exact = append(exact, now)
		}
		allowed := take(t, &model, l, now)
		if allowed {
			own = append(own, now)
			a.worst = max(a.worst, own.within(now))
		}
		switch {
		case allowed && !allows:
			a.falseAllows++
		case !allowed && allows:
			a.falseDenials++
		}
	}
	a.calls = int64(len(calls))
	return a
}

// take makes a call of cost 1 to a model, and reports whether it is allowed.
func take(t *testing.T, m *Model, l Limit, now int64) bool {
	t.Helper()
	s, err := NewStep([]Applied{{Limit: l, Count: "k", Cost: 1, Owner: "o"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Take(s, time.UnixMicro(now))
	if err != nil {
		t.Fatal(err)
	}
	return d.Allowed
}

// stateBytes returns the length of the states of a limit of 100 after 100 calls.
func stateBytes(t *testing.T, l Limit) string {
	t.Helper()
	l.Requests, l.Window = accuracyLimit, time.Minute
	var m Model
	for i := range int64(accuracyLimit) {
		take(t, &m, l, accuracyWindow*30_000_000+i)
	}
	size := 0
	for _, s := range m.states {
		size += len(encode(s))
	}
	return strconv.Itoa(size)
}

// The table of docs/algorithms.md equals the measured one, and no rolling window of a log
// exceeds its limit. -update rewrites the table.
func TestAccuracy(t *testing.T) {
	limits := []int64{10, accuracyLimit, 1000}
	head, line := "| | bytes, 100 calls |", "|---|---:|"
	for _, traffic := range accuracyTraffic {
		head, line = head+" "+traffic.title+" |", line+"---:|"
	}
	for _, n := range limits {
		head, line = head+" worst, "+strconv.FormatInt(n, 10)+" |", line+"---:|"
	}
	table := "\n" + head + "\n" + line + "\n"
	for _, a := range accuracyAlgorithms {
		table += "| " + a.title + " | " + stateBytes(t, a.limit) + " |"
		worst := make([]int64, len(limits))
		for _, traffic := range accuracyTraffic {
			for i, n := range limits {
				a.limit.Requests = n
				got := measureAccuracy(t, a.limit, traffic.calls(n))
				worst[i] = max(worst[i], got.worst)
				if n == accuracyLimit {
					table += " " + percent(got.falseAllows, got.calls) + " / " +
						percent(got.falseDenials, got.calls) + " |"
				}
				if a.limit.Algorithm == Log && got.worst > n {
					t.Errorf("%s, %s: a rolling window has %d calls, limit %d", a.title, traffic.title,
						got.worst, n)
				}
			}
		}
		for i, n := range limits {
			table += " " + percent(max(0, worst[i]-n), n) + " |"
		}
		table += "\n"
	}
	content, err := os.ReadFile(accuracyDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), accuracyBegin)
	written, after, ends := strings.Cut(rest, accuracyEnd)
	switch {
	case !begins || !ends:
		t.Fatalf("%s lacks %s", accuracyDocument, accuracyBegin)
	case written == table:
	case !*update:
		t.Errorf("%s has another table than the measured one; -update writes it:\n%s", accuracyDocument,
			table)
	default:
		err := os.WriteFile(accuracyDocument, []byte(before+accuracyBegin+table+accuracyEnd+after), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// percent formats part of whole in percent: 0 for nothing, one decimal below 10.
func percent(part, whole int64) string {
	switch p := 100 * float64(part) / float64(whole); {
	case part == 0:
		return "0"
	case p < 0.1:
		return "<0.1"
	case p < 10:
		return fmt.Sprintf("%.1f", p)
	default:
		return fmt.Sprintf("%.0f", p)
	}
}
