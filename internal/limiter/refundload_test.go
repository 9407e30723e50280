package limiter

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
)

// Whatever is taken and given back at once by many, what remains is where the calls that
// were kept put it: 16 callers of a limit of all, of 20,000 in 5 minutes.
func TestConcurrentRefundsAreExact(t *testing.T) {
	client := separate(t, strings.TrimPrefix(valkeytest.Start(t), "valkey://"))
	for _, algorithm := range []Algorithm{Log, TokenBucket, FixedWindow} {
		limit := Limit{Requests: 20_000, Window: 5 * time.Minute, Algorithm: algorithm}
		if algorithm != Log { // of which little comes back by itself, and no boundary is near
			limit.Window = 366 * 24 * time.Hour
		}
		l := limitersOf(t, client, "tg:"+algorithm.String(), []Limit{limit})[0]
		const callers, rounds = 16, 100
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for i := range rounds {
					cost := int64(1 + i%3)
					taken, err := l.Reserve(t.Context(), "all", cost)
					if err != nil || !taken.Allowed {
						t.Errorf("%v, %v", taken, err)
						return
					}
					if i%10 == 0 { // kept
						continue
					}
					if d, err := l.Refund(t.Context(), "all", cost, taken); err != nil || d.Unreturned != 0 {
						t.Errorf("%d unreturned, %v", d.Unreturned, err)
					}
				}
			})
		}
		group.Wait()
		kept := int64(0)
		for i := 0; i < rounds; i += 10 {
			kept += callers * int64(1+i%3)
		}
		d, err := l.Peek(t.Context(), "all")
		if err != nil {
			t.Fatal(err)
		}
		if left := d.Limits[0].Remaining; left != limit.Requests-kept {
			t.Errorf("%s: %d remain, want %d", algorithm, left, limit.Requests-kept)
		}
	}
}
