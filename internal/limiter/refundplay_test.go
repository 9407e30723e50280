package limiter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/histories"
	"tidegate/internal/testing/valkeytest"
)

// refundHistories is how many histories each test with refunds plays.
var refundHistories = flag.Int("refunds", 500, "histories to play in each test of refunds")

// takenCall is a call as the oracle knows it.
type takenCall struct {
	at   time.Time // true time, which never steps
	now  time.Time // the server's clock then
	cost int64     // without what was given back
}

// refundPlay is one history with refunds of any amount at any age. The script and the
// model make every step; the oracle is a list of calls.
type refundPlay struct {
	random *rand.Rand
	client valkey.Client
	script *valkey.Lua
	key    string
	limit  Limit
	model  Model
	at     time.Time     // true time
	behind time.Duration // how far the server's clock has stepped back
	calls  []takenCall
	log    []string
	steps  int
	bytes  int  // longest state
	dense  bool // little time passes between calls
	// The calls reserve, for buckets.
	reserve bool
}

func (p *refundPlay) now() time.Time { return p.at.Add(-p.behind) }

func (p *refundPlay) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("%s\n%s", strings.Join(p.log, "\n"), fmt.Sprintf(format, args...))
}

// do makes a step on the script and on the model, and expects the same answer: cost is 0
// to look, below 0 to give back what was taken.
func (p *refundPlay) do(t *testing.T, cost int64, taken time.Time) Decision {
	t.Helper()
	limits := []Limit{p.limit}
	program, err := Compile(limits, p.now())
	if err != nil {
		t.Fatal(err)
	}
	if cost > 0 && p.reserve {
		taken = time.UnixMicro(Reserving)
	}
	reply, err := p.script.Exec(t.Context(), p.client, []string{p.key}, []string{
		string(program), number(cost), number(taken.UnixMicro()), number(p.now().UnixMicro()),
	}).ToString()
	if err != nil {
		p.fail(t, "script: %v", err)
	}
	got, err := ParseReply([]byte(reply), limits)
	if err != nil {
		p.fail(t, "reply: %v", err)
	}
	var want Decision
	switch {
	case cost < 0:
		want = p.model.Refund(p.now(), limits, -cost, taken, 0)
	case cost == 0:
		want = p.model.Peek(p.now(), limits)
	case p.reserve:
		want, _ = p.model.Reserve(p.now(), limits, cost)
	default:
		want, _ = p.model.Take(p.now(), limits, cost)
	}
	p.steps++
	p.log = append(p.log, fmt.Sprintf("%d %v cost %d of %d: %t %v, %d unreturned",
		p.now().UnixMicro(), limits, cost, taken.UnixMicro(), got.Allowed, got.Limits, got.Unreturned))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.fail(t, "the model says %+v", want)
	}
	return got
}

// held is what the oracle counts in the rolling window that ends now.
func (p *refundPlay) held() (calls int64) {
	for _, c := range p.calls {
		if p.at.Sub(c.at) < p.limit.Window {
			calls += c.cost
		}
	}
	return calls
}

// forward lets time pass: mostly a little, now and then nothing, or up to a window.
func (p *refundPlay) forward() {
	span := p.limit.Span()
	kind := p.random.IntN(8)
	if p.dense {
		kind = 3
		span /= 20
	}
	switch kind {
	case 0:
	case 1:
		p.at = p.at.Add(time.Duration(p.random.Int64N(int64(span))))
	case 2:
		p.at = p.at.Add(span)
	default:
		p.at = p.at.Add(time.Duration(p.random.Int64N(int64(span / 20))))
	}
	p.at = p.at.Truncate(time.Microsecond)
}

// window draws a window of up to 50 minutes.
func (p *refundPlay) window() time.Duration {
	return time.Duration(1+p.random.IntN(3000)) * time.Second
}

// rounds draws how long a history is: mostly short.
func (p *refundPlay) rounds() int {
	if p.random.IntN(20) == 0 {
		return 100 + p.random.IntN(200)
	}
	return 2 + p.random.IntN(8)
}

// cost draws small and large costs.
func (p *refundPlay) cost() int64 {
	most := p.limit.Requests
	if p.dense {
		most /= 10
	}
	switch p.random.IntN(4) {
	case 0:
		return 1 + p.random.Int64N(max(1, most))
	case 1:
		return 1
	default:
		return 1 + p.random.Int64N(max(1, most/10))
	}
}

// take makes a call, and expects no more than the limit in the window when it passes.
func (p *refundPlay) take(t *testing.T, cost, bound int64) {
	t.Helper()
	if !p.do(t, cost, time.Unix(0, 0)).Allowed {
		return
	}
	p.calls = append(p.calls, takenCall{at: p.at, now: p.now(), cost: cost})
	if held := p.held(); bound > 0 && held > bound {
		p.fail(t, "%d calls in the window, of %d", held, bound)
	}
}

// refund gives back a part or all of some call, and returns how much, and what the
// answers before and after were.
func (p *refundPlay) refund(t *testing.T) (amount int64, call takenCall, before, after Decision) {
	t.Helper()
	if len(p.calls) == 0 {
		return 0, takenCall{}, Decision{}, Decision{}
	}
	recent := min(len(p.calls), 1+p.random.IntN(40))
	c := &p.calls[len(p.calls)-1-p.random.IntN(recent)]
	if c.cost == 0 {
		return 0, takenCall{}, Decision{}, Decision{}
	}
	amount = c.cost
	if p.random.IntN(3) > 0 {
		amount = 1 + p.random.Int64N(c.cost)
	}
	before = p.do(t, 0, time.Unix(0, 0))
	after = p.do(t, -amount, c.now)
	c.cost -= amount
	return amount, *c, before, after
}

// measure notes the state's length.
func (p *refundPlay) measure(t *testing.T) {
	t.Helper()
	n, err := p.client.Do(t.Context(), p.client.B().Strlen().Key(p.key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	p.bytes = max(p.bytes, int(n))
}

// playRefunds plays histories, each on a key of its own.
func playRefunds(t *testing.T, play func(*refundPlay)) {
	t.Helper()
	client, script := connect(t, valkeytest.Start(t)), clockedScript(t)
	steps, longest := 0, 0
	played := histories.N(*refundHistories)
	for seed := range played {
		p := &refundPlay{
			random: rand.New(rand.NewPCG(uint64(seed), 1)), client: client, script: script,
			key: "refunds", at: time.Unix(1_800_000_000, 0), log: []string{fmt.Sprintf("seed %d", seed)},
		}
		play(p)
		steps += p.steps
		longest = max(longest, p.bytes)
		client.Do(t.Context(), client.B().Del().Key(p.key).Key(p.key+":expiry").Build())
	}
	t.Logf("%d histories, %d steps, states of up to %d bytes", played, steps, longest)
}
