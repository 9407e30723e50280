package keys

import (
	"context"
	"time"

	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
)

// KeyNow is a key and how it stands.
type KeyNow struct {
	Key
	States  []string        `json:"states" doc:"What is out of the ordinary: overridden, blocked, near, shadow, banned, expiring, revoked, unreadable"`
	Windows []schema.Window `json:"windows" doc:"Its limits in force and how they stand; none with mode off"`
	Activity
}

// Activity is what a key or caller did lately.
type Activity struct {
	LastHour schema.Counts `json:"lastHour" doc:"Its calls of the last hour"`
	LastUsed *time.Time    `json:"lastUsed,omitempty" doc:"Minute of its last call; absent when it made none in 24 hours"`
}

func (ops operations) activities(ctx context.Context, ids []string) ([]Activity, error) {
	all, err := app.Activities(ctx, ops.calls, ids, time.Now())
	out := make([]Activity, len(all))
	for i, one := range all {
		out[i] = Activity{schema.CountsOf(one.Calls), schema.Given(one.Last)}
	}
	return out, err
}

// keysNow are keys with what they did lately.
func (ops operations) keysNow(ctx context.Context, subjects []app.Subject) ([]KeyNow, error) {
	ids := make([]string, len(subjects))
	for i, s := range subjects {
		ids[i] = s.ID
	}
	did, err := ops.activities(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]KeyNow, len(subjects))
	for i, s := range subjects {
		out[i] = keyNowOf(s)
		out[i].Activity = did[i]
	}
	return out, nil
}

func keyNowOf(s app.Subject) KeyNow {
	out := KeyNow{Key: keyOf(s.Key), States: []string{}, Windows: schema.WindowsOf(s.Now)}
	if out.Kind == "" {
		out.Kind = string(policy.APIKey) // of one that cannot be read nobody knows
	}
	out.Banned = schema.Given(s.BannedUntil)
	for _, state := range s.States() {
		out.States = append(out.States, string(state))
	}
	return out
}
