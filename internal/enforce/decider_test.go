package enforce

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// asked is a Source whose checker is always connected.
type asked struct{ *Checker }

func (a asked) Check(ctx context.Context, call Call) (Result, error) {
	return a.Checker.Check(ctx, call, nil)
}

func (a asked) Loaded() *Checker { return a.Checker }

func (a asked) MustAsk() bool { return false }

// One of 256 buckets waits to be restored. Keys that anybody can make up, of that bucket,
// take Valkey from no caller of another one.
func TestMadeUpKeysOfALostBucket(t *testing.T) {
	for _, sectors := range []int{1, 16} {
		t.Run(fmt.Sprint(sectors, " sectors"), func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.save(t, func(s *policy.Set) {
				s.Plans = []policy.Plan{{Name: "free", Limits: perMinute(100), Degraded: policy.Closed}}
			})
			_, secret := w.create(t, "good", "free")
			d := NewDecider(asked{w.checker}, Settings{Pepper: testPepper, CallerCache: time.Minute,
				DenyCache: time.Second, Sectors: sectors}, time.Now)
			ask := func(secret apikey.Secret) (Result, error) {
				result, _, err := d.Decide(t.Context(), call(secret))
				return result, err
			}
			if r, err := ask(secret); err != nil || !r.Allowed {
				t.Fatalf("before: %+v, %v", r, err)
			}
			lost := keyspace.BucketOf(secret.ID()) ^ 1
			copyKey := policyset.CopyKey(lost)
			if err := w.client.Do(t.Context(), w.client.B().Del().Key(copyKey).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			for sent := 0; sent < 8; {
				made, err := apikey.Generate("test")
				if err != nil {
					t.Fatal(err)
				}
				if keyspace.BucketOf(made.ID()) == lost {
					sent++
					_, _ = ask(made)
				}
			}
			if r, err := ask(secret); err != nil || !r.Allowed || r.Degraded {
				t.Errorf("after: %+v, %v", r, err)
			}
		})
	}
}
