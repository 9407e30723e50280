// Package crossing reports that a call took the use of a limit to one of its thresholds:
// as a line of a log, from which the forward function makes an event, and in a list for
// the dashboard. Both functions import it. Package enforce says what a call crossed.
//
// # Once
//
// A threshold of a limit on one subject is reported once until the limit resets: until
// the end of a fixed window or a calendar period, and in a rolling window until what was
// used at the report has left it. So a caller whose use of a rolling window hovers around
// a threshold causes one event in each window. After an edit of the limit or of the
// caller's record, and after a reset, the threshold is reported again. A mark in Valkey
// records each report. Each environment remembers marks, which saves the round trip.
//
// The report is sent after the call's answer and before the next call. An environment
// that is killed in between loses the reports of that call. So does a call whose reply is
// lost, unless it is checked again. Without Valkey the line is written too, so an outage
// can cause a second report, but never a missing one.
//
// # What is stored
//
//	tg:{tag}:usage-xMARK      string  that a threshold was reported      until its reset
//	tg:{tag}:usage-crossings  zset    128 of a bucket, as JSON           31 days
//	tg:{tag}:usage-yDAY       hash    counts of callers without a key    2 days
//
// All are in the bucket of the subject that the limit is on. The lists have at most about
// 10 MB together. Callers known by a token have at most 32 reports per bucket and day,
// 8,192 in all, and so have all others without an API key, such as addresses. Further ones
// are counted, and neither listed nor written.
package crossing

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/telemetry"
)

const (
	// maxPending bounds the events that wait for Send: those of one call and of
	// concurrent calls.
	maxPending = 256
	// maxMarks bounds the marks that an environment remembers; that many take 0.5 MB.
	maxMarks = 4096
	// leastMark is the shortest life of a mark.
	leastMark = time.Second
)

// Log reports the thresholds that calls cross: Note collects events, and Send reports
// them. It is safe for concurrent use and bounded in memory.
type Log struct {
	lines *slog.Logger

	mu      sync.Mutex
	pending []Event
	marks   *simplelru.LRU[string, time.Time] // ends of marks, by Valkey's clock
}

// NewLog returns a Log that writes its lines to a logger, at any level of the logger.
func NewLog(lines *slog.Logger) *Log {
	marks, _ := simplelru.NewLRU[string, time.Time](maxMarks, nil) // fails only for a size below 1
	return &Log{lines: slog.New(everyLevel{lines.Handler()}), marks: marks}
}

// everyLevel is a handler that writes lines of every level.
type everyLevel struct{ slog.Handler }

// Enabled is true.
func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }

// Note collects the crossings of a call. Almost every call has none.
func (l *Log) Note(call Call, crossings []enforce.Crossing) {
	if len(crossings) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range crossings {
		e := call.event(x)
		if until, known := l.marks.Get(e.mark()); known && e.Time.Before(until) {
			continue
		}
		if len(l.pending) < maxPending {
			l.pending = append(l.pending, e)
		}
	}
}

// Waiting reports whether Send has something to report.
func (l *Log) Waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending) > 0
}

func (l *Log) take() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.pending
	l.pending = nil
	return events
}

// Send reports the collected events: it lists them in Valkey, and writes a line for each
// that was not reported before. Without a client, or if Valkey fails, it writes the line.
func (l *Log) Send(ctx context.Context, client valkey.Client) {
	for _, e := range l.take() {
		reply, err := e.store(ctx, client)
		if err != nil {
			l.lines.LogAttrs(ctx, slog.LevelWarn, unlisted, slog.Any("cause", err))
		}
		if err != nil || reply == reportedNow {
			l.lines.LogAttrs(ctx, slog.LevelInfo, Message, e.attrs()...)
		}
		l.mu.Lock()
		l.marks.Add(e.mark(), e.Resets)
		l.mu.Unlock()
	}
}

const (
	reportedNow = 1 // reply of crossing.lua
	unlisted    = "crossed limit not listed"
)

// Event reports that a call took the use of a limit to a threshold. It has no credential
// and no address.
type Event struct {
	Time time.Time `json:"time" doc:"By Valkey's clock"`
	// KeyID, KeyName, Group and Plan are of the caller; without a record it has no name.
	KeyID   string `json:"key" doc:"Id of the calling key or caller"`
	KeyName string `json:"name,omitempty" doc:"Name of the key at the time"`
	Group   string `json:"group,omitempty" doc:"Group of the key at the time"`
	Plan    string `json:"plan,omitempty"`
	Route   string `json:"route,omitempty" doc:"Name of the call's route, as a backend is told"`
	// Subject is the id of the caller, network (an HMAC), route or group.
	Who       string    `json:"who" doc:"For whom the limit counts apart" example:"each caller"`
	Subject   string    `json:"subject" doc:"Id of what the limit is on; for an address, an HMAC"`
	Limit     string    `json:"limit" doc:"The limit, as in a client's response" example:"100,000 per calendar month"`
	Threshold int       `json:"threshold" minimum:"1" maximum:"100" doc:"Percentage of the limit"`
	Used      int64     `json:"used" doc:"Used after the call"`
	Max       int64     `json:"max"`
	Resets    time.Time `json:"resets" doc:"When the limit is unused again if nobody calls"`

	class   string // of the caller, as in crossing.lua
	version int64  // of the record of the caller that the limit is on; 0 for other subjects
}

// Call is the call that crossed thresholds.
type Call struct {
	KeyID, KeyName, Group, Plan, Route string
	Version                            int64 // of the caller's record; 0 without one
	Kind                               policy.Kind
}

// ResultOf returns the call of a check's result.
func ResultOf(r *enforce.Result, kind policy.Kind) Call {
	return Call{KeyID: r.ID, KeyName: r.Name, Group: r.Group, Plan: r.Plan, Route: r.Route,
		Version: r.KeyVersion, Kind: kind}
}

// SettlementOf returns the call of a settlement. A caller without a record is any other
// caller, since a settlement does not say whether a token or an address is the caller.
func SettlementOf(s *enforce.Settlement) Call {
	return Call{KeyID: s.ID, KeyName: s.Name, Group: s.Group, Plan: s.Plan, Route: s.Route,
		Version: s.KeyVersion, Kind: s.Kind}
}

func (c Call) event(x enforce.Crossing) Event {
	e := Event{
		Time: x.At, KeyID: c.KeyID, KeyName: c.KeyName, Group: c.Group, Plan: c.Plan, Route: c.Route,
		Who: cmp.Or(x.Limit.For(), whoCaller), Subject: x.Subject,
		Limit:     answer.NameOf(x.Limit),
		Threshold: x.Percent, Used: x.Used, Max: x.Limit.Requests, Resets: x.At.Add(x.Reset),
		class: c.class(x.Limit.Who),
	}
	if x.Limit.Who.OfCaller() {
		e.version = c.Version
	}
	return e
}

// whoCaller says for whom a limit counts that does not say it.
const whoCaller = "each caller"

// class returns the class of a report about a limit. A limit of each address or of each
// value of a parameter counts for any other caller, since both are cheap to make up.
func (c Call) class(who limits.Who) string {
	switch {
	case who == limits.Together:
		return "r"
	case who.OfCaller() || who == limits.EachGroup:
		switch c.Kind {
		case policy.APIKey:
			return "r"
		case policy.Token:
			return "t"
		case policy.Address:
		}
	}
	return "u"
}

// mark returns the name of the event's mark: a hash of the subject, the limit, the
// threshold and the version of the caller's record.
func (e *Event) mark() string {
	h := sha256.New()
	for _, part := range []string{e.Subject, e.owner(), e.Limit, strconv.Itoa(e.Threshold),
		strconv.FormatInt(e.version, 10)} {
		h.Write(append([]byte{byte(len(part) >> 8), byte(len(part))}, part...))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// owner distinguishes limits with equal words that count apart: it returns the plan of a
// limit that is not of each caller, since that of another plan is another count.
func (e *Event) owner() string {
	if strings.HasPrefix(e.Who, whoCaller) {
		return ""
	}
	return e.Plan
}

// Message is the message of lines about crossed limits.
const Message = "limit crossed"

// attrs returns the fields of the event's line. docs/operations.md lists them.
func (e *Event) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("event", telemetry.LimitCrossed), slog.String("key_id", e.KeyID),
		slog.String("key_name", e.KeyName),
		slog.String("group", e.Group),
		slog.String("plan", e.Plan), slog.String("route", e.Route), slog.String("who", e.Who),
		slog.String("subject", e.Subject), slog.String("limit", e.Limit),
		slog.Int("threshold", e.Threshold), slog.Int64("used", e.Used), slog.Int64("max", e.Max),
		slog.String("resets", e.Resets.UTC().Format(time.RFC3339)),
		slog.String("crossed", e.Time.UTC().Format("2006-01-02T15:04:05.000Z")),
	}
}

//go:embed crossing.lua
var crossingLua string

var script = valkey.NewLuaScript(crossingLua)

var errNoClient = errors.New("no connection to Valkey")

// store adds the event to the list, unless it was reported before. It returns the reply
// of crossing.lua.
func (e *Event) store(ctx context.Context, client valkey.Client) (reply int64, err error) {
	if client == nil {
		return 0, fmt.Errorf("crossing: %w", errNoClient)
	}
	report, err := json.Marshal(e)
	if err != nil {
		return 0, fmt.Errorf("crossing: %w", err)
	}
	b := keyspace.BucketOf(e.Subject)
	keys := []string{b.Name("usage-x" + e.mark()), listName(b), countName(b, e.Time)}
	args := []string{e.class, string(report), strconv.FormatInt(e.Time.UnixMilli(), 10),
		strconv.FormatInt(max(leastMark, e.Resets.Sub(e.Time)).Milliseconds(), 10)}
	reply, err = script.Exec(ctx, client, keys, args).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("crossing: %w", err)
	}
	return reply, nil
}

func listName(b keyspace.Bucket) string { return b.Name("usage-crossings") }

func countName(b keyspace.Bucket, at time.Time) string {
	return b.Name("usage-y" + strconv.FormatInt(at.Unix()/int64(24*time.Hour/time.Second), 10))
}
