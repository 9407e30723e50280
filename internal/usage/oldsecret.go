package usage

import (
	"context"
	"time"
)

// OldSecretUsed returns when a subject last called with the secret from before its last
// rotation: the start of that minute, or of that hour if it is longer ago than minutes
// are kept. It is zero when there was no such call.
func (r *Reader) OldSecretUsed(ctx context.Context, id string, now time.Time) (time.Time, error) {
	for _, s := range []struct{ kept, step time.Duration }{
		{MinutesKept, time.Minute}, {HoursKept, time.Hour},
	} {
		points, err := r.Series(ctx, id, now.Add(-s.kept), now, s.step)
		if err != nil {
			return time.Time{}, err
		}
		for i := len(points) - 1; i >= 0; i-- {
			if points[i].OldSecret > 0 {
				return points[i].Start, nil
			}
		}
	}
	return time.Time{}, nil
}
