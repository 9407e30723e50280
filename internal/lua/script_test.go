package lua

import (
	"os"
	"slices"
	"testing"

	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// DoMany makes each run once, in order, whether its server knows the script or not.
func TestDoMany(t *testing.T) {
	storetest.OnEveryServer(t, func(t *testing.T, url string) {
		client := storetest.Connect(t, url)
		count := New(func() string { return "return redis.call('INCRBY', KEYS[1], ARGV[1])" })
		var runs []Run
		for i, key := range []string{"a", "b", "c", "a", "d", "a"} {
			runs = append(runs, Run{[]string{key}, []string{[]string{"1", "20"}[i%2]}})
		}
		for _, want := range [][]int64{{1, 20, 1, 21, 1, 41}, {42, 40, 2, 62, 2, 82}} {
			var got []int64
			for _, result := range count.DoMany(t.Context(), client, runs) {
				n, err := result.AsInt64()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, n)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}
