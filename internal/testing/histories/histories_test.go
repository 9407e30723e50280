package histories

import (
	"flag"
	"testing"

	"pgregory.net/rapid"
)

// Under the race detector and with -short, N is a tenth; else it is all. rapid plays the
// same share under the race detector.
func TestShare(t *testing.T) {
	if testing.Short() {
		if got := N(100); got != share {
			t.Errorf("%d of 100 histories, want %d", got, share)
		}
		return
	}
	want := map[bool]int{true: 10, false: 100}[underRace]
	if got := N(100); got != want {
		t.Errorf("%d of 100 histories, want %d", got, want)
	}
	if got := N(1); got != 1 {
		t.Errorf("%d of 1 history, want 1", got)
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() != f.DefValue && !underRace {
		t.Skipf("-rapid.checks is %s", f.Value)
	}
	played := 0
	rapid.Check(t, func(*rapid.T) { played++ })
	if played != want {
		t.Errorf("rapid played %d histories, want %d", played, want)
	}
}
