package scale

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
)

// edit saves the plan of all keys several times.
func (g *growth) edit(ctx context.Context) ([]figures.Figure, error) {
	var took []time.Duration
	used, err := nodes{g.node}.during(ctx, func() error {
		for i := range edits {
			began := time.Now()
			if err := g.registry.Edit(ctx, func(s *policy.Set) {
				s.Plans[0].Limits[0].Requests = fullLimit + int64(i+1)%2
			}); err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("edit.keys%d.", g.keys)
	return []figures.Figure{
		figure(prefix+"ms", figures.Median(took, figures.Millis), "ms"),
		figure(prefix+"bytes", float64(used[0].received)/edits, "bytes"),
		figure(prefix+"cpu_ms", used[0].processor.Seconds()*1e3/edits, "ms"),
	}, nil
}
