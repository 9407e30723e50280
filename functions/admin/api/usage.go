package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/list"
	"tidegate/internal/crossing"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Series is calls over time.
type Series struct {
	From    time.Time           `json:"from" doc:"Start of the first minute or hour that is counted"`
	To      time.Time           `json:"to" doc:"End of the last minute or hour that is counted"`
	Counted time.Time           `json:"counted" doc:"Until when calls are counted"`
	Since   *time.Time          `json:"since,omitempty" doc:"When the records begin"`
	Step    string              `json:"step" example:"1m"`
	Total   records.Counts      `json:"total"`
	AtLeast bool                `json:"atLeast,omitempty" doc:"Calls may be missing"`
	Points  []records.Point     `json:"points"`
	Kinds   []records.KindCount `json:"kinds" doc:"What denied and refused calls, most calls first"`
}

// Talker is a caller and its calls.
type Talker struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	Plan string `json:"plan,omitempty"`
	records.Counts
}

type (
	// Span is the query of a period and its steps.
	Span struct {
		From time.Time `query:"from" doc:"Default: one hour before to"`
		To   time.Time `query:"to" doc:"Default: now"`
		Step string    `query:"step" default:"1m" maxLength:"10" doc:"Length of a step: whole minutes for at most 26 of the last 50 hours, whole hours within the last 30 days"`
	}
	usageInput struct {
		keys.Path
		Span
	}
	usageOutput struct {
		Body struct {
			Limits  []app.LimitState `json:"limits" doc:"Limits of each caller and of each group"`
			History Series           `json:"history"`
		}
	}
	overviewInput struct {
		Span
		Top int `query:"top" minimum:"1" maximum:"64" default:"10" doc:"Length of busiest and of mostDenied"`
	}
	overviewOutput struct {
		Body struct {
			Keys          int64     `json:"keys" doc:"Number of keys"`
			ActiveCallers int64     `json:"activeCallers" doc:"Callers seen since activeSince"`
			ActiveSince   time.Time `json:"activeSince" doc:"The beginning of the hour, or of the day if the period is longer than an hour, in UTC"`
			PolicyVersion int64     `json:"policyVersion"`
			History       Series    `json:"history"`
			Busiest       []Talker  `json:"busiest" doc:"Callers with the most calls"`
			MostDenied    []Talker  `json:"mostDenied" doc:"Callers with the most calls that were denied, refused, or would be denied in shadow"`
		}
	}
)

func (a *api) registerUsage() {
	group := a.Group("usage")
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys/{id}/usage", ID: "get-usage", Role: auth.Viewer,
		Summary: "Get the current state of a key's limits and its calls over time",
	}, a.keyUsage)
	rest.Register(group, rest.Operation{
		Pattern: "GET /overview", ID: "get-overview", Role: auth.Viewer,
		Summary: "Get all calls over time and the callers with the most calls and denials",
	}, a.overview)
}

// span is a Span with its defaults filled in.
type span struct {
	from, to time.Time
	step     time.Duration
}

func (in Span) span(now time.Time) (span, error) {
	s := span{in.From, in.To, 0}
	var err error
	if s.step, err = limits.ParseWindow(in.Step); err != nil {
		return s, rest.Invalid("query.step", "must be a duration such as 1m, 15m or 1h")
	}
	if s.to.IsZero() {
		s.to = records.Last(time.Hour, 0, now).To
	}
	if s.from.IsZero() {
		s.from = s.to.Add(-time.Hour)
	}
	return s, nil
}

func (s span) in() records.Range { return records.Range{From: s.from, To: s.to, Step: s.step} }

func seriesOf(r records.Series) Series {
	return Series{From: r.From.UTC(), To: r.To.UTC(), Counted: r.Counted.UTC(), Since: schema.Given(r.Began),
		Step: limits.ShortWindow(r.Step), Total: r.Sum(), AtLeast: r.AtLeast(),
		Points: r.Points, Kinds: r.ByKind()}
}

func (a *api) keyUsage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	s, err := in.span(time.Now())
	if err != nil {
		return nil, err
	}
	k, err := keys.Get(ctx, a.Keys, in.ID)
	if err != nil {
		return nil, err
	}
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	states, err := a.Keys.Usage(ctx, set, []policy.Key{k})
	if err != nil {
		return nil, err
	}
	history, err := a.Records.Caller(ctx, k.ID, s.in())
	if err != nil {
		return nil, err
	}
	out := &usageOutput{}
	out.Body.Limits = app.StatesOf(set, states[0])
	out.Body.History = seriesOf(history)
	return out, nil
}

func (a *api) overview(ctx context.Context, in *overviewInput) (*overviewOutput, error) {
	now := time.Now()
	s, err := in.span(now)
	if err != nil {
		return nil, err
	}
	history, err := a.Records.Total(ctx, s.in())
	if err != nil {
		return nil, err
	}
	out := &overviewOutput{}
	b := &out.Body
	b.History = seriesOf(history)
	if b.ActiveCallers, b.ActiveSince, err = a.Records.ActiveCount(ctx,
		now.Sub(s.from) > time.Hour); err != nil {
		return nil, err
	}
	if b.Keys, err = a.Keys.Count(ctx, app.KeyFilter{}); err != nil {
		return nil, err
	}
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	b.PolicyVersion = set.Version
	for order, to := range map[records.Order]*[]Talker{
		records.Busiest: &b.Busiest, records.MostDenied: &b.MostDenied,
	} {
		ranked, err := a.Records.Rank(ctx, s.in(), order, in.Top)
		if err != nil {
			return nil, err
		}
		if *to, err = a.named(ctx, set, ranked); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// named returns callers with their names and plans. Callers without a record have none.
func (a *api) named(ctx context.Context, set *policy.Set, talkers []records.Ranked) ([]Talker, error) {
	known, err := app.Records(ctx, a.Keys, set, talkers, func(t records.Ranked) string { return t.ID })
	if err != nil {
		return nil, err
	}
	out := make([]Talker, len(talkers))
	for i, t := range talkers {
		out[i] = Talker{t.ID, known[t.ID].Name, known[t.ID].Plan, t.Counts}
	}
	return out, nil
}

func (a *api) registerCrossings() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /crossings", ID: "list-crossings", Role: auth.Viewer,
		Summary: "List the calls of the last 30 days that reached a threshold, newest first",
	}, rest.List(func(ctx context.Context, q *app.AlertQuery) (list.Page[app.Alert], error) {
		return app.Alerts(ctx, a.Keys, a.Crossings, q)
	}))
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "POST /crossings/test", ID: "test-crossings", Role: auth.Editor,
		Status:  http.StatusNoContent,
		Summary: "Send a test event to where crossed limits are sent, at most once a minute",
	}, a.testCrossings)
}

func (a *api) testCrossings(ctx context.Context, _ *rest.None) (*rest.None, error) {
	err := a.Crossings.Test(ctx, auth.From(ctx).Name)
	if errors.Is(err, crossing.ErrTested) {
		p := rest.NewProblem(http.StatusTooManyRequests, "A test was sent less than a minute ago.")
		return nil, p.RetryAfter(int64(crossing.TestPause / time.Second))
	}
	return nil, err
}
