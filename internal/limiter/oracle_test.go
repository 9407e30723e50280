package limiter

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// clockedScript returns the shipped script with ARGV[6] as its clock. It sets no time to
// live, since virtual time runs ahead of the server's. It stores when the state expires
// in key:expiry, and history deletes the state then.
func clockedScript(t testing.TB) *valkey.Lua {
	t.Helper()
	return valkey.NewLuaScript(clockedSource(t, TakeScript()))
}

// clockedSource returns the text of a script with the clock of clockedScript.
func clockedSource(t testing.TB, source string) string {
	t.Helper()
	for old, replacement := range map[string]string{
		"local now = t[1] * 1000000 + t[2]\n": "local now = tonumber(ARGV[6])\n" +
			`local function note_expiry(key, life)
			call('SET', key .. ':expiry', string.format('%.0f', now + life * 1000))
		end
		local function expiring_set(key, value, px, life)
			call('SET', (key), value)
			note_expiry(key, life)
		end
		local function longer_life(key, life) -- PEXPIRE with GT
			local before = call('GET', key .. ':expiry')
			if now + life * 1000 > tonumber(before) then note_expiry(key, life) end
		end
		`,
		"call('SET', key, ":     "expiring_set(key, ",
		"call('PEXPIRE', key, ": "longer_life(key, ",
	} {
		if !strings.Contains(source, old) {
			t.Fatalf("the script does not contain %q", old)
		}
		source = strings.ReplaceAll(source, old, replacement)
	}
	return source
}

// expire deletes an expired state. The model must count nothing then.
func (h *history) expire(t *rapid.T) {
	expiry, err := h.client.Do(context.Background(),
		h.client.B().Get().Key(h.key+":expiry").Build()).AsInt64()
	if err != nil || h.now.UnixMicro() < expiry {
		return
	}
	model := h.model
	for _, u := range model.Peek(h.now, h.stepped).Limits {
		if u.Remaining != u.Limit.Requests || u.Reset != 0 {
			t.Fatalf("%s\nat %d: the state has expired, but the model still counts: %+v",
				strings.Join(h.log, "\n"), h.now.UnixMicro(), u)
		}
	}
	h.client.Do(context.Background(), h.client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
	h.model = Model{}
}

func connect(t testing.TB, url string) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress:  []string{strings.TrimPrefix(url, "valkey://")},
		DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// history makes random calls, edits and clock steps with the script and with the model,
// and compares their decisions.
type history struct {
	client  valkey.Client
	script  *valkey.Lua
	key     string
	model   Model
	now     time.Time
	taken   time.Time   // time of the call that the next refund is for
	past    []time.Time // times of the admitted calls
	shadows bool        // some limits are in shadow mode
	limits  []Limit
	counted []Limit // only count

	unforced bool // no cost is taken where it does not fit
	lists    [][]Limit
	stepped  []Limit // the limits of the last step
	steps    int
	log      []string
}

// step makes a step with the script and with the model, and compares the decisions. A
// cost of 0 peeks, a negative cost is refunded.
func (h *history) step(t *rapid.T, cost int64) {
	h.expire(t)
	h.stepped = h.limits
	h.steps++
	program, err := Compile(h.limits, h.now)
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Now: h.now, Limits: h.limits, Counted: h.counted, Cost: cost}
	taken, counted := int64(0), ""
	if cost < 0 {
		taken, step.Taken = h.taken.UnixMicro(), h.taken
		step.Calls = rapid.Int64Range(0, 1).Draw(t, "calls")
		if h.shadows {
			step.Spared = byte(rapid.IntRange(0, 255).Draw(t, "spared"))
		}
	}
	if cost > 1 && !h.unforced && rapid.IntRange(0, 4).Draw(t, "force") == 0 {
		taken, step.Force = -1, true
	}
	if len(h.counted) > 0 {
		compiled, err := Compile(h.counted, h.now)
		if err != nil {
			t.Fatal(err)
		}
		counted = string(compiled)
	}
	reply, err := h.script.Exec(context.Background(), h.client, []string{h.key},
		[]string{string(program.Sparing(step.Spared)), number(cost), number(step.Calls), number(taken),
			counted, number(h.now.UnixMicro())}).ToString()
	if err != nil {
		t.Fatalf("%s\n%+v\nscript: %v", strings.Join(h.log, "\n"), step, err)
	}
	got, replyErr := ParseReply([]byte(reply), h.limits)
	if cost > 0 {
		if err := checkCost(cost, h.limits); err != nil {
			t.Fatal(err)
		}
	}
	want := h.model.Step(step)
	h.log = append(h.log, describe(step, taken, want))
	if replyErr != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s\n%s\nscript: got the last line, %v, want the one before, which is the model's",
			strings.Join(h.log, "\n"), describe(step, taken, got), replyErr)
	}
	if cost > 0 && want.Allowed {
		h.taken = h.now
		h.past = append(h.past, h.now)
	}
}

// describe returns a line for a step and its decision.
func describe(step Step, taken int64, d Decision) string {
	list := func(limits []Limit) (text string) {
		for _, l := range limits {
			b, _ := json.Marshal(l)
			text += string(b)
		}
		return text
	}
	line := fmt.Sprintf("%d %s", step.Now.UnixMicro(), list(step.Limits))
	if len(step.Counted) > 0 {
		line += " counting " + list(step.Counted)
	}
	line += fmt.Sprintf(" cost %d calls %d taken %d spared %b: %t", step.Cost, step.Calls, taken,
		step.Spared, d.Allowed)
	for _, u := range d.Limits {
		line += fmt.Sprintf(" [%d %s %s %s", u.Remaining, u.Reset, u.Next, u.RetryAfter)
		if u.Owed > 0 {
			line += fmt.Sprintf(" owes %d", u.Owed)
		}
		if !u.Since.IsZero() {
			line += fmt.Sprintf(" since %d", u.Since.Unix())
		}
		line += "]"
	}
	return line + fmt.Sprintf(" unreturned %d", d.Unreturned)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (h *history) smallestLimit() int64 {
	smallest := int64(MaxRequests)
	for _, l := range h.limits {
		if !l.Shadow && !l.Calls {
			smallest = min(smallest, l.Requests)
		}
	}
	return smallest
}

var (
	windows = rapid.SampledFrom([]time.Duration{
		time.Millisecond, 7 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 17 * time.Minute,
		20 * time.Minute,
		24 * time.Hour, 4 * 24 * time.Hour, 366 * 24 * time.Hour,
	})
	smallRequests = rapid.Int64Range(1, 12)
	requests      = rapid.OneOf(smallRequests, smallRequests, rapid.Int64Range(1, 900))
	hugeRequests  = rapid.Int64Range(1, MaxRequests)
)

func drawLimit(t *rapid.T) Limit {
	l := Limit{Requests: requests.Draw(t, "requests"), Window: windows.Draw(t, "window")}
	l.Algorithm = rapid.SampledFrom(Algorithms()).Draw(t, "algorithm")
	switch {
	case l.Algorithm == Log:
		l.CountDenied = rapid.IntRange(0, 3).Draw(t, "count denied") == 0
		if rapid.IntRange(0, 2).Draw(t, "grouped") == 0 {
			l.Slots = MinSlots
		}
	case rapid.IntRange(0, 9).Draw(t, "huge") == 0:
		l.Requests = hugeRequests.Draw(t, "huge requests")
	}
	if l.Algorithm == FixedWindow && rapid.Bool().Draw(t, "calendar") {
		l.Window, l.Calendar = 0, rapid.SampledFrom(Calendars()).Draw(t, "period")
		l.Zone = rapid.SampledFrom([]string{"", "Europe/Berlin", "America/New_York", "Asia/Kathmandu",
			"Australia/Lord_Howe"}).Draw(t, "zone")
	}
	l.Calls = rapid.IntRange(0, 4).Draw(t, "calls") == 0
	if !l.CountDenied && l.Span() >= MinNotifyWindow {
		l.Notify = drawThresholds(t)
	}
	return l
}

func drawLimits(t *rapid.T) []Limit {
	limits := make([]Limit, rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 3, 4, 4, 6, 8}).Draw(t, "limits"))
	for i := range limits {
		limits[i] = drawLimit(t)
	}
	return limits
}

// advance moves the clock, mostly forward.
func (h *history) advance(t *rapid.T) {
	window := h.limits[rapid.IntRange(0, len(h.limits)-1).Draw(t, "which")].Span()
	switch rapid.IntRange(0, 9).Draw(t, "move") {
	case 0:
		h.now = h.now.Add(window)
	case 1:
		h.now = h.now.Add(window - time.Microsecond)
	case 2:
		h.now = h.now.Add(3 * window)
	case 3: // the server's clock steps back, perhaps by more than the range of a slot
		if rapid.IntRange(0, 4).Draw(t, "far") == 0 {
			h.now = h.now.Add(-time.Duration(rapid.Int64Range(0, 1<<41).Draw(t, "back")) * time.Microsecond)
			return
		}
		h.now = h.now.Add(-time.Duration(rapid.Int64Range(0, 2*window.Microseconds()).Draw(t,
			"back")) * time.Microsecond)
	case 4, 5:
	default:
		h.now = h.now.Add(time.Duration(rapid.Int64Range(0, window.Microseconds()/5).Draw(t,
			"forward")) * time.Microsecond)
	}
}

// shadow changes the mode of some limits.
func (h *history) shadow(t *rapid.T) {
	if !h.shadows {
		return
	}
	h.limits = append([]Limit(nil), h.limits...)
	for i := range h.limits {
		if rapid.IntRange(0, 2).Draw(t, "changes mode") == 0 {
			h.limits[i].Shadow = !h.limits[i].Shadow
		}
	}
}

// edit changes the list of limits, or one of them.
func (h *history) edit(t *rapid.T) {
	defer h.shadow(t)
	switch rapid.IntRange(0, 3).Draw(t, "edit") {
	case 0:
		h.limits = drawLimits(t)
	default:
		i := rapid.IntRange(0, len(h.limits)-1).Draw(t, "which")
		edited := append([]Limit(nil), h.limits...)
		switch {
		case rapid.Bool().Draw(t, "requests only"):
			edited[i].Requests = requests.Draw(t, "requests")
		case edited[i].Calendar == NoCalendar && rapid.Bool().Draw(t, "window only"):
			edited[i].Window, edited[i].Notify = windows.Draw(t, "window"), Thresholds{}
		default:
			edited[i] = drawLimit(t)
		}
		h.limits = edited
	}
}

// play makes random events.
func (h *history) play(t *rapid.T) {
	for range rapid.IntRange(1, 60).Draw(t, "calls") {
		switch rapid.IntRange(0, 12).Draw(t, "event") {
		case 0:
			switch rapid.IntRange(0, 3).Draw(t, "list") {
			case 0: // an override begins, or ends
				h.limits, h.counted = h.counted, h.limits
				if len(h.limits) == 0 {
					h.limits = drawLimits(t)
				}
			case 1: // another list, perhaps one that comes back
				h.lists = append(h.lists, h.limits)
				h.limits = rapid.SampledFrom(h.lists).Draw(t, "list")
			default:
				h.edit(t)
			}
		case 1, 12:
			if rapid.Bool().Draw(t, "refund") {
				if len(h.past) > 0 && rapid.Bool().Draw(t, "an earlier call") {
					h.taken = rapid.SampledFrom(h.past).Draw(t, "taken")
				}
				h.step(t, -rapid.Int64Range(1, min(h.smallestLimit(), 1000)).Draw(t, "refunded"))
			} else {
				h.step(t, 0)
			}
		case 2:
			h.step(t, rapid.Int64Range(1, min(h.smallestLimit(), 1000)).Draw(t, "cost"))
		case 3, 4, 5:
			h.advance(t)
		default:
			h.step(t, 1)
		}
	}
}

func checkAgainstModel(t *testing.T, url string) {
	client, script, n, steps := connect(t, url), clockedScript(t), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &history{client: client, script: script, key: "h" + strconv.Itoa(n),
			now: time.Unix(1_800_000_000, 0), taken: time.Unix(1, 0)}
		h.limits = drawLimits(rt)
		h.shadows = rapid.Bool().Draw(rt, "shadows")
		h.shadow(rt)
		h.play(rt)
		steps += h.steps
		client.Do(t.Context(), client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
	})
	t.Logf("%d histories, %d steps", n, steps)
}

// checkFoundHistories repeats histories in which random testing found rare differences.
func checkFoundHistories(t *testing.T, url string) {
	client, script := connect(t, url), clockedScript(t)
	type call struct {
		after  time.Duration // since the start
		limits []Limit
		cost   int64
	}
	log := []Limit{{Requests: 1, Window: 7 * time.Millisecond}}
	attempts := []Limit{{Requests: 4, Window: 20 * time.Minute, CountDenied: true}}
	exceeded := []Limit{{Requests: 2, Window: time.Millisecond, Algorithm: Counter, Shadow: true}}
	for name, calls := range map[string][]call{
		"an edited log counts denied calls": {{0, log, 1}, {6999 * time.Microsecond, attempts, 0}},
		"a limit in shadow mode is exceeded in a new window, and the clock steps back": {
			{0, exceeded, 2}, {1190 * time.Microsecond, exceeded, 1}, {-244 * time.Microsecond, attempts, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				h := &history{client: client, script: script, key: name, taken: time.Unix(1, 0)}
				for _, c := range calls {
					h.now, h.limits = time.Unix(1_800_000_000, 0).Add(c.after), c.limits
					h.step(rt, c.cost)
				}
				client.Do(t.Context(), client.B().Del().Key(name).Key(name+":expiry").Build())
			})
		})
	}
}

func TestFoundHistories(t *testing.T) { checkFoundHistories(t, valkeytest.Start(t)) }

func TestFoundHistoriesEmbedded(t *testing.T) { checkFoundHistories(t, valkeytest.Embedded(t)) }

// For random histories of calls, edits and clock steps, the script makes exactly the
// decisions of the model.
func TestScriptEqualsModel(t *testing.T) { checkAgainstModel(t, valkeytest.Start(t)) }

// Script and model also agree on the embedded server, whose Lua lacks the struct library.
func TestScriptEqualsModelEmbedded(t *testing.T) { checkAgainstModel(t, valkeytest.Embedded(t)) }
