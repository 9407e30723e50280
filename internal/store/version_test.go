package store

import (
	"strings"
	"testing"

	"tidegate/internal/testing/valkeytest"
)

func TestVersion(t *testing.T) {
	client, err := Open(t.Context(), valkeytest.Start(t), patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	got, err := Version(t.Context(), client)
	if name, number, _ := strings.Cut(got, " "); err != nil || name == "" || !strings.Contains(number, ".") {
		t.Errorf("%q, %v", got, err)
	}
}
