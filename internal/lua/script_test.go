package lua

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// DoMany makes each run once, in order, whether its server knows the script or not. A run
// that fails fails alone.
func TestDoMany(t *testing.T) {
	storetest.OnEveryServer(t, func(t *testing.T, url string) {
		client := storetest.Connect(t, url)
		list := client.B().Lpush().Key("list").Element("a").Build()
		if err := client.Do(t.Context(), list).Error(); err != nil {
			t.Fatal(err)
		}
		count := New(func() string { return "return {tostring(redis.call('INCRBY', KEYS[1], ARGV[1]))}" })
		var runs []Run
		for i, key := range []string{"a", "b", "c", "a", "list", "d", "a"} {
			runs = append(runs, Run{[]string{key}, []string{[]string{"1", "20"}[i%2], "more"}})
		}
		for _, want := range []string{"1 20 1 21 WRONGTYPE 20 22", "23 40 2 43 WRONGTYPE 40 44"} {
			var got []string
			for _, reply := range count.DoMany(t.Context(), client, runs) {
				if reply.Err != nil {
					reply.Values = strings.Fields(reply.Err.Error())[:1]
				}
				got = append(got, reply.Values...)
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

// On a single server runs are as many scripts as their number and their size want, with all
// their keys and arguments.
func TestRunsTogether(t *testing.T) {
	client := storetest.Connect(t, valkeytest.Embedded(t))
	join := New(func() string { return "return {KEYS[1], KEYS[2] or '', tostring(#ARGV), ARGV[#ARGV]}" })
	var runs []Run
	for i := range 2*runsTogether + 1 {
		keys := []string{strconv.Itoa(i)}
		if i%3 == 0 {
			keys = append(keys, "b")
		}
		runs = append(runs, Run{keys, slices.Repeat([]string{strconv.Itoa(i)}, 1+i%70)})
	}
	runs = append(runs, Run{[]string{"long"}, slices.Repeat([]string{"y"}, 2*argsTogether)})
	replies := join.DoMany(t.Context(), client, runs)
	for i, r := range runs {
		want := []string{r.Keys[0], append(r.Keys, "")[1], strconv.Itoa(len(r.Args)), r.Args[0]}
		if !slices.Equal(replies[i].Values, want) || replies[i].Err != nil {
			t.Fatalf("run %d: got %q, %v, want %q", i, replies[i].Values, replies[i].Err, want)
		}
	}
}
