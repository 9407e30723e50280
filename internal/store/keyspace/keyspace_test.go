package keyspace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// A real cluster computes slot 64i+32 for the names of bucket i, so buckets are spread
// evenly.
func TestBucketsSpreadOverSlots(t *testing.T) {
	node := strings.TrimPrefix(valkeytest.StartCluster(t, 1, 0)[0], "valkey://")
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{node}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for i, b := range All() {
		for _, name := range []string{b.Records(), b.Name("id:s")} {
			slot, err := client.Do(t.Context(), client.B().ClusterKeyslot().Key(name).Build()).AsInt64()
			if err != nil || slot != int64(64*i+32) {
				t.Errorf("%s is in slot %d, %v; want %d", name, slot, err, 64*i+32)
			}
		}
	}
}

// Subjects spread evenly over the buckets. All names of a subject have its bucket's tag.
func TestSubjectsSpreadOverBuckets(t *testing.T) {
	var filled [Buckets]int
	for i := range 256 * Buckets {
		filled[BucketOf(fmt.Sprintf("subject%d", i))]++
	}
	for b, n := range filled {
		if n < 128 || n > 384 {
			t.Errorf("bucket %d has %d of %d subjects, want about 256", b, n, 256*Buckets)
		}
	}
	tag := BucketOf("A1").Name("")
	records := BucketOf("A1").Records()
	if records != tag+"cr" || Of("A1", "s") != tag+"A1:s" {
		t.Errorf("records %s and state %s are not both in %s", records, Of("A1", "s"), tag)
	}
}
