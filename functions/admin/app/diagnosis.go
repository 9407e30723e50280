package app

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/records"
)

// Diagnosis says what denied or refused a caller's calls lately, and until when.
type Diagnosis struct {
	Calls       int64     // of the latest run of denied and refused calls; 0 without one in 24 hours
	Since, Last time.Time // of the run: its first minute and its last, or hours if it is long ago
	By          []Blocker // what denied or refused them, most calls first
	Earlier     int64     // denied and refused calls of the last 24 hours before the run
	AtLeast     bool      // calls of the last 24 hours may be missing
	Refused     string    // why every call is refused now; empty if it is not
	Banned      time.Duration
	Denier      Denier // what denies calls now, and longest; zero if nothing does
	Demand      Demand
	At          time.Time
	New         bool  // the key is younger than a day
	Passed      int64 // calls of the last 24 hours that passed
}

// Demand is what a caller sends beside what its limit allows. It is zero for a caller that
// sends no more, and for a limit that does not count every call as one.
type Demand struct {
	Sends, Allows int64         // calls a minute
	Enough        int64         // calls in Window that the limit would have to allow
	Window        time.Duration // of the limit
}

// Blocker is what denied or refused calls.
type Blocker struct {
	records.KindCount

	Source string // in words: where the limit stands; empty for another cause
}

const (
	diagnosed = 24 * time.Hour
	recently  = 3 * time.Hour // whose runs are known to the minute
)

// Diagnose returns the diagnosis of a key.
func Diagnose(ctx context.Context, calls *records.Reader, s Subject, v enforce.Survey) (Diagnosis, error) {
	d := Diagnosis{Refused: v.Refused, At: s.At, Banned: max(0, v.Result.BannedUntil.Sub(v.Result.Now))}
	if len(s.Deniers) > 0 {
		d.Denier = s.Deniers[0]
	}
	run, err := calls.Caller(ctx, s.ID, records.Last(recently, time.Minute, s.At))
	if err != nil {
		return d, err
	}
	end := s.At.UTC().Truncate(time.Hour).Add(time.Hour)
	day, err := calls.Caller(ctx, s.ID, records.Range{From: end.Add(-diagnosed), To: end, Step: time.Hour})
	if err != nil {
		return d, err
	}
	sum := day.Sum()
	d.New, d.Passed = s.At.Sub(s.Created) < diagnosed-time.Hour, sum.Allowed
	if run.Episode().Calls == 0 {
		run = day
	}
	e := run.Episode()
	d.Calls, d.Since, d.Last = e.Calls, e.Since, e.Last
	d.Earlier = max(0, sum.Denied+sum.Refused-e.Calls)
	d.AtLeast = slices.ContainsFunc(day.Points, func(p records.Point) bool { return p.AtLeast })
	if e.Calls == 0 {
		return d, nil
	}
	for _, k := range run.Between(e.Since, e.Last) {
		if k.Cause != cause.Shadow {
			d.By = append(d.By, Blocker{k, source(k.Kind, v)})
		}
	}
	d.Demand = demandOf(run, d.By, v, s.At)
	return d, nil
}

// demanded is the time whose busiest minute is a caller's demand.
const demanded = 10 * time.Minute

// demandOf compares what a caller sent lately, by the minute, with the limit that denied
// most of it.
func demandOf(run records.Series, by []Blocker, v enforce.Survey, at time.Time) (d Demand) {
	i := slices.IndexFunc(v.Result.Limits, func(l enforce.LimitState) bool {
		return len(by) > 0 && by[0].Cause == cause.Limit && Named(by[0].Limit, l)
	})
	if i < 0 || run.Step != time.Minute {
		return d
	}
	l := v.Result.Limits[i]
	everyCall := l.On == "" && max(l.Who, limits.EachCaller) == limits.EachCaller && !l.AtOnce &&
		(l.Unit == limits.Cost || l.Unit == limits.Calls)
	if !everyCall || l.Window <= 0 || l.Window > time.Hour {
		return d
	}
	for _, p := range run.Points {
		if p.Cost != p.Allowed {
			return Demand{}
		}
		if p.Start.Before(at.Add(-demanded)) || p.Start.Add(run.Step).After(at) {
			continue
		}
		d.Sends = max(d.Sends, p.Allowed+p.Denied)
	}
	d.Allows = int64(float64(l.Requests) * float64(time.Minute) / float64(l.Window))
	if d.Sends <= d.Allows {
		return Demand{}
	}
	d.Window = l.Window
	d.Enough = roundUp(int64(math.Ceil(float64(d.Sends) * float64(l.Window) / float64(time.Minute))))
	return d
}

// roundUp rounds up to two digits: 105 to 110.
func roundUp(n int64) int64 {
	step := int64(1)
	for n/step >= 100 {
		step *= 10
	}
	return (n + step - 1) / step * step
}

// Named reports whether clients know a limit by the name that a denial has.
func Named(name string, l enforce.LimitState) bool {
	return name != "" && !l.CountsOnly && name == answer.NameOf(l.Limit)
}

// source says where the limit of a blocker stands.
func source(k records.Kind, v enforce.Survey) string {
	if k.Cause != cause.Limit {
		return ""
	}
	for _, l := range v.Result.Limits {
		if Named(k.Limit, l) {
			return SourceWords(l.Applied, v.Effective.Plan.Name)
		}
	}
	return "no longer in force"
}

// SourceWords says where a limit stands. plan is the name of the caller's plan.
func SourceWords(l limits.Applied, plan string) string {
	switch l.Source {
	case limits.FromPlan:
		return "plan " + plan
	case limits.FromOverride:
		return "override"
	case limits.FromGroupOverride:
		return "override of the group"
	case limits.FromPolicy:
	}
	return "policy"
}

// KindWords says what denied or refused a call: "500 per hour", "a ban", "revoked key".
func KindWords(k records.Kind) string {
	switch k.Cause {
	case cause.Limit, cause.Shadow:
		return k.Limit
	case cause.Ban:
		return "a ban"
	case cause.Unavailable:
		return "an outage of Valkey"
	case cause.Missing, cause.Malformed, cause.Unknown, cause.Revoked, cause.Expired, cause.OldSecret,
		cause.Address, cause.Access:
	}
	return strings.ToLower(CauseWords[k.Cause])
}

// CauseWords name the causes in lists.
var CauseWords = map[cause.Cause]string{
	cause.Missing: "No credential", cause.Malformed: "Malformed credential", cause.Unknown: "Unknown key",
	cause.Revoked: "Revoked key", cause.Expired: "Expired key", cause.OldSecret: "Previous secret",
	cause.Address: "Refused address", cause.Access: "No access",
	cause.Limit: "Over limit", cause.Ban: "Banned", cause.Unavailable: "Unavailable",
}

// Words describes what denied the calls: "all by 500 per hour (plan partner)".
func (d Diagnosis) Words() string {
	parts := make([]string, len(d.By))
	for i, b := range d.By {
		parts[i] = "by " + KindWords(b.Kind)
		if b.Source != "" {
			parts[i] += " (" + b.Source + ")"
		}
		if len(d.By) > 1 {
			parts[i] = limits.Number(b.Calls) + " " + parts[i]
		}
	}
	if len(parts) == 1 {
		return "all " + parts[0]
	}
	return strings.Join(parts, ", ")
}
