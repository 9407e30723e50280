package app

import (
	"context"
	"time"

	"tidegate/internal/usage"
)

// Activity is what a key or caller did lately.
type Activity struct {
	Points []usage.Point // of the last hour, ActivityStep each
	Calls  usage.Counts  // their sum
	Last   time.Time     // minute of its last call; zero when it made none in 24 hours
}

const (
	activitySpan = time.Hour
	// ActivityStep is the time between two points of an Activity.
	ActivityStep = 2 * time.Minute
)

// Activities returns what subjects did lately, in order.
func Activities(ctx context.Context, calls *usage.Reader, ids []string, now time.Time) ([]Activity, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	series, err := calls.Sparklines(ctx, ids, now.Add(-activitySpan), now, ActivityStep)
	if err != nil {
		return nil, err
	}
	last, err := calls.LastSeen(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([]Activity, len(ids))
	for i := range all {
		all[i] = Activity{series[i], usage.Sum(series[i]), last[i]}
	}
	return all, nil
}
