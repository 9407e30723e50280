package dashboard_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

// The list orders keys by what limits in shadow would have denied. It says how many calls
// would have been denied.
func TestKeysByUse(t *testing.T) {
	s := sitetest.New(t, sitetest.WithKeys(sitetest.NewRegistry(t, "acme", "bolt", "cargo"))).Login()
	first := func(path string, names ...string) string {
		t.Helper()
		body := s.Get(path).Wants(t, http.StatusOK).Body
		_, rows, _ := strings.Cut(body, "<tbody")
		for i := range names[1:] {
			if strings.Index(rows, ">"+names[i]+"<") > strings.Index(rows, ">"+names[i+1]+"<") {
				t.Errorf("%s: %s is not before %s", path, names[i], names[i+1])
			}
		}
		return sitetest.InWords(body)
	}
	if strings.Contains(s.Get("/keys").Body, "in shadow") {
		t.Error("the list tells of limits in shadow without any")
	}
	for name, calls := range map[string]int{"bolt": 4, "cargo": 3, "acme": 1} {
		c := records.Call{Caller: s.Keys.IDs[name], Registered: true, Cost: 1, Time: time.Now(),
			Shadow: "3 per hour"}
		s.Keys.Record(slices.Repeat([]records.Call{c}, calls)...)
	}
	words := first("/keys?order=denied", "bolt", "cargo", "acme")
	for _, text := range []string{"bolt", "4 0 4 in shadow", "3 0 3 in shadow", "1 0 1 in shadow"} {
		if !strings.Contains(words, text) {
			t.Errorf("want %q in %s", text, words)
		}
	}
}
