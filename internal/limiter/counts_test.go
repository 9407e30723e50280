package limiter

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var (
	histories = flag.Int("histories", 0, "histories to play; 0 for those of the tier")
	seed      = flag.Uint64("history", 1, "number of the first history")
)

// testSizes make short histories merge and rewrite.
var testSizes = []sizes{{2, 3, 4, 6}, {5, 3, 7, 6}, {3, 3, 30, 12}, {part, 3, piece, 200}}

func drawn(number uint64) history {
	r := rand.New(rand.NewPCG(number, 7))
	return draw(r, testSizes[r.IntN(len(testSizes))])
}

// hunt plays histories until one goes wrong, and reports it as short as it can.
func hunt(first uint64, count int, start func(sizes) engine) (at int, problem string, h history) {
	for i := range count {
		h := drawn(first + uint64(i))
		if h.play(start(h.sizes)) == "" {
			continue
		}
		h = h.shrink(func(h history) bool { return h.play(start(h.sizes)) != "" })
		return i + 1, h.play(start(h.sizes)), h
	}
	return 0, "", history{}
}

// shrink returns a history with fewer operations and limits that is bad too.
func (h history) shrink(bad func(history) bool) history {
	for size := len(h.ops) / 2; size >= 1; size /= 2 {
		for i := 0; i+size <= len(h.ops); {
			less := h
			less.ops = append(append([]op{}, h.ops[:i]...), h.ops[i+size:]...)
			if bad(less) {
				h = less
			} else {
				i += size
			}
		}
	}
	for p := range h.plans {
		for i := 0; i < len(h.plans[p]); {
			less := h
			less.plans = append([][]Applied{}, h.plans...)
			less.plans[p] = append(append([]Applied{}, h.plans[p][:i]...), h.plans[p][i+1:]...)
			if bad(less) {
				h = less
			} else {
				i++
			}
		}
	}
	return h
}

func (h history) String() string {
	text := fmt.Sprintf("sizes %+v\n", h.sizes)
	for i, p := range h.plans {
		text += fmt.Sprintf("plan %d:\n", i)
		for _, a := range p {
			text += fmt.Sprintf("   %+v\n", a)
		}
	}
	for i, o := range h.ops {
		text += fmt.Sprintf("%3d %+v\n", i, o)
	}
	return text
}

// Whatever happens, the model answers as a plain list of calls does.
func TestModelAgreesWithTheList(t *testing.T) {
	count := *histories
	if count == 0 && testing.Short() {
		count = 1000
	} else if count == 0 {
		count = 100_000
	}
	at, problem, h := hunt(*seed, count, func(z sizes) engine { return z.model() })
	if at > 0 {
		t.Errorf("history %d: %s\n%s", at, problem, h)
	}
}

// The scripts reply and store what the model does.
func TestScriptsEqualModel(t *testing.T) {
	client := connect(t)
	servers := map[sizes]*server{}
	history := 0
	at, problem, h := hunt(*seed, max(300, *histories), func(z sizes) engine {
		if servers[z] == nil {
			servers[z] = newServer(t, client, z)
		}
		history++
		s := *servers[z]
		s.prefix = fmt.Sprintf("{%d}", history)
		m := z.model()
		m.full = math.MaxInt // the server, too, keeps what has ended: its clock runs ahead
		return both{m, &s}
	})
	if at > 0 {
		t.Errorf("history %d: %s\n%s", at, problem, h)
	}
}
