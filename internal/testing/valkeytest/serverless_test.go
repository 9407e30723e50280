package valkeytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"
)

// The front refuses what a serverless cache lacks, also in lower case, and passes the
// rest. A client follows MOVED to the front itself.
func TestServerless(t *testing.T) {
	front := StartServerless(t)
	url := As(t, front.URL(), "user", []string{"on", "~*", "+@all"})
	password := strings.TrimPrefix(url, "valkey://user:")
	password, _, _ = strings.Cut(password, "@")
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{front.Address()},
		Username: "user", Password: password, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	do := func(words ...string) error {
		command := client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
		return client.Do(t.Context(), command).Error()
	}
	if err := do("SET", "a", "b"); err != nil {
		t.Fatal(err)
	}
	front.Swap(2)
	if got, err := client.Do(t.Context(), client.B().Get().Key("a").Build()).ToString(); got != "b" {
		t.Errorf("after a swap: got %q, %v, want b", got, err)
	}
	for _, words := range [][]string{{"OBJECT", "a"}, {"watch", "a"}} {
		if err := do(words...); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%v: got %v, want it refused", words, err)
		}
	}
	if got := front.Refused(); !slices.Equal(got, []string{"OBJECT A", "WATCH A"}) {
		t.Errorf("got %q refused", got)
	}
	if asked := front.Asked(); asked < 1 {
		t.Errorf("got %d requests for slots, want some", asked)
	}
}
