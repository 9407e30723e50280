package limiter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

// refundHistories is the number of histories in each test of refunds.
var refundHistories = flag.Int("refunds", 500, "histories to play in each test of refunds")

// takenCall is an admitted call in the oracle's list.
type takenCall struct {
	at   time.Time // true time, which never steps
	now  time.Time // time on the server's clock
	cost int64     // cost that was not refunded
}

// refundPlay is one history with refunds of any amount at any age. The script and the
// model make every step, and must agree. The oracle is the list calls.
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
	bytes  int  // length of the longest state
	dense  bool // little time passes between calls
}

// now returns the time on the server's clock.
func (p *refundPlay) now() time.Time { return p.at.Add(-p.behind) }

func (p *refundPlay) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("%s\n%s", strings.Join(p.log, "\n"), fmt.Sprintf(format, args...))
}

// do makes a step with the script and with the model, and checks that the decisions are
// equal. A cost of 0 peeks, a negative cost refunds a call made at taken.
func (p *refundPlay) do(t *testing.T, cost int64, taken time.Time) Decision {
	t.Helper()
	limits := []Limit{p.limit}
	program, err := Compile(limits, p.now())
	if err != nil {
		t.Fatal(err)
	}
	if cost > 0 {
		taken = time.UnixMicro(0)
	}
	reply, err := p.script.Exec(t.Context(), p.client, []string{p.key}, []string{
		string(program), number(cost), "1", number(taken.UnixMicro()), "", number(p.now().UnixMicro()),
	}).ToString()
	if err != nil {
		p.fail(t, "script: %v", err)
	}
	got, err := ParseReply([]byte(reply), limits)
	if err != nil {
		p.fail(t, "reply: %v", err)
	}
	want := p.model.Step(Step{Now: p.now(), Limits: limits, Cost: cost, Calls: 1, Taken: taken})
	p.steps++
	p.log = append(p.log, fmt.Sprintf("%d %v cost %d of %d: %t %v, %d unreturned",
		p.now().UnixMicro(), limits, cost, taken.UnixMicro(), got.Allowed, got.Limits, got.Unreturned))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.fail(t, "got %+v, want the model's %+v", got, want)
	}
	return got
}

// used returns the oracle's count in the rolling window that ends now.
func (p *refundPlay) used() (calls int64) {
	for _, c := range p.calls {
		if p.at.Sub(c.at) < p.limit.Window {
			calls += c.cost
		}
	}
	return calls
}

// forward moves the time: mostly by a little, sometimes not at all or by up to a window.
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

// rounds draws the length of a history, mostly short.
func (p *refundPlay) rounds() int {
	if p.random.IntN(20) == 0 {
		return 100 + p.random.IntN(200)
	}
	return 2 + p.random.IntN(8)
}

// cost draws a cost, mostly small.
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

// take makes a call. If it is admitted, the rolling window must not exceed bound; 0 means
// no bound.
func (p *refundPlay) take(t *testing.T, cost, bound int64) {
	t.Helper()
	if !p.do(t, cost, time.Unix(0, 0)).Allowed {
		return
	}
	p.calls = append(p.calls, takenCall{at: p.at, now: p.now(), cost: cost})
	if used := p.used(); bound > 0 && used > bound {
		p.fail(t, "got %d calls in the window, want at most %d", used, bound)
	}
}

// refund gives back a part or all of a random call. It returns the amount, the call, and
// the decisions before and after. The amount is 0 if there is nothing to refund.
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

// measure records the state's length.
func (p *refundPlay) measure(t *testing.T) {
	t.Helper()
	n, err := p.client.Do(t.Context(), p.client.B().Strlen().Key(p.key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	p.bytes = max(p.bytes, int(n))
}

// playRefunds plays histories, each with a new state.
func playRefunds(t *testing.T, play func(*refundPlay)) {
	t.Helper()
	client, script := connect(t, valkeytest.Start(t)), clockedScript(t)
	steps, longest := 0, 0
	played := tier.Histories(*refundHistories)
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
