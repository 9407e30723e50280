package store

import (
	"errors"
	"fmt"
	"testing"

	"tidegate/internal/testing/valkeytest"
)

// What a server says about its own state counts as being away, what it says about a call
// does not.
func TestAway(t *testing.T) {
	client := open(t, valkeytest.Start(t), patient)
	for text, away := range map[string]bool{
		"ERR plan 3 does not exist": false, "WRONGTYPE of value": false, "NOSCRIPT at all": false,
		"OOM command not allowed": true, "CLUSTERDOWN for now": true, "LOADING data": true,
		"READONLY replica": true, "NOAUTH yet": true,
		"NOPERM for this": true, "BUSY with a script": true, "TRYAGAIN later": true, "MASTERDOWN link": true,
	} {
		err := client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(
			0).Arg(text).Build()).Error()
		if got := Away(fmt.Errorf("check: %w", err)); got != away {
			t.Errorf("%v: away is %t, want %t", err, got, away)
		}
	}
	missing := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error()
	if Away(nil) || Away(missing) || !Away(errors.New("connection refused")) {
		t.Error("no error, no value or no connection is taken for another")
	}
}

func TestClustered(t *testing.T) {
	for url, want := range map[string]bool{
		"valkey://a": false, "nothing": false, "valkey://a,b?cluster=true": true,
		"valkeys://u@a?cluster=true&iam=c&region=r": true,
	} {
		if Clustered(url) != want {
			t.Errorf("%s: %t", url, !want)
		}
	}
}
