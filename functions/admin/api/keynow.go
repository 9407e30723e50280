package api

import (
	"context"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
)

// KeyNow is a key and how it stands.
type KeyNow struct {
	Key
	States  []string `json:"states" doc:"What is out of the ordinary: overridden, blocked, near, shadow, banned, expiring, revoked, unreadable"`
	Windows []Window `json:"windows" doc:"Its limits in force and how they stand; none with mode off"`
	Activity
}

// Activity is what a key or caller did lately.
type Activity struct {
	LastHour Counts     `json:"lastHour" doc:"Its calls of the last hour"`
	LastUsed *time.Time `json:"lastUsed,omitempty" doc:"Minute of its last call; absent when it made none in 24 hours"`
}

func (a *api) activities(ctx context.Context, ids []string) ([]Activity, error) {
	all, err := app.Activities(ctx, a.Usage, ids, time.Now())
	out := make([]Activity, len(all))
	for i, one := range all {
		out[i] = Activity{countsOf(one.Calls), given(one.Last)}
	}
	return out, err
}

// keysNow are keys with what they did lately.
func (a *api) keysNow(ctx context.Context, subjects []app.Subject) ([]KeyNow, error) {
	ids := make([]string, len(subjects))
	for i, s := range subjects {
		ids[i] = s.ID
	}
	did, err := a.activities(ctx, ids)
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
	out := KeyNow{Key: keyOf(s.Key), States: []string{}, Windows: windowsOf(s.Now)}
	if out.Kind == "" {
		out.Kind = string(policy.APIKey) // of one that cannot be read nobody knows
	}
	out.Banned = given(s.BannedUntil)
	for _, state := range s.States() {
		out.States = append(out.States, string(state))
	}
	return out
}
