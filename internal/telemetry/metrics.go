package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Namespace is the namespace of the metrics in CloudWatch.
const Namespace = "Tidegate"

// maxLatencies is CloudWatch's maximum number of values of a metric in a line.
const maxLatencies = 100

// nearLimit divides a limit: a call with less than that share remaining counts as near
// the limit.
const nearLimit = 5

// Check is one call's contribution to the metrics.
type Check struct {
	Denied       bool // otherwise allowed
	ShadowDenied bool
	Degraded     bool
	StoreError   bool
	// Remaining and Limit are those of the binding limit. Below 20 % an allowed call
	// counts as near the limit; with a Limit of 0 it does not.
	Remaining, Limit int64
	Store            time.Duration // Valkey's response time; 0 if it was not used
}

// Metric is a counter. String returns its name in CloudWatch.
type Metric int

// The counters. docs/operations.md describes each.
const (
	Checks Metric = iota
	Allowed
	Denied
	ShadowDenied
	Degraded
	NearLimit
	StoreErrors
	Refused
	Unauthorized
	ColdStart
	metrics
)

// StoreLatency is the name of the metric of Valkey's response times, in milliseconds.
const StoreLatency = "StoreLatency"

// String returns the name in CloudWatch.
func (m Metric) String() string { return names[m] }

var names = [metrics]string{
	"Checks", "Allowed", "Denied", "ShadowDenied", "Degraded", "NearLimit", "StoreErrors",
	"Refused", "Unauthorized", "ColdStart",
}

// The dimensions, and the value of Service for checks.
const (
	DimensionService = "Service"
	DimensionStage   = "Stage"
	CheckService     = "check"
)

// Options of Metrics. Both dimensions are required; the default interval is one second.
type Options struct {
	Service, Stage string
	Interval       time.Duration
}

// Metrics counts checks and writes the counts as lines of CloudWatch's embedded metric
// format, at most one per interval. The only dimensions are Service and Stage. It is safe
// for concurrent use.
type Metrics struct {
	out            io.Writer
	now            func() time.Time
	interval       time.Duration
	head, identity []byte

	mu        sync.Mutex
	counts    [metrics]int64
	latencies [maxLatencies]time.Duration
	measured  int // number of measured latencies; latencies is a uniform sample of them
	slowest   time.Duration
	written   int64 // time of the last line, in nanoseconds of the Unix epoch
	line      []byte
	random    *rand.Rand
}

// ErrDimension means that a dimension's value is not 1 to 255 printable ASCII characters.
var ErrDimension = errors.New("telemetry: a dimension must be 1 to 255 printable ASCII characters")

// NewMetrics returns Metrics that write to out. The first line counts a cold start.
func NewMetrics(out io.Writer, o Options, now func() time.Time) (*Metrics, error) {
	for _, value := range []string{o.Service, o.Stage} {
		if err := CheckDimension(value); err != nil {
			return nil, err
		}
	}
	m := &Metrics{
		out: out, now: now, interval: cmp.Or(o.Interval, time.Second),
		random: rand.New(rand.NewPCG(uint64(now().UnixNano()), 0)), //nolint:gosec // chooses samples
	}
	m.head = appendHead(nil)
	m.identity = fmt.Appendf(nil, `,%q:%q,%q:%q`, DimensionService, o.Service, DimensionStage, o.Stage)
	m.counts[ColdStart] = 1
	return m, nil
}

// CheckDimension returns ErrDimension if value is not valid for a dimension.
func CheckDimension(value string) error {
	unprintable := strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' })
	if unprintable || value == "" || len(value) > 255 {
		return fmt.Errorf("%w: %.40q", ErrDimension, value)
	}
	return nil
}

// appendHead appends the part of each line after the timestamp.
func appendHead(b []byte) []byte {
	b = append(b, `,"CloudWatchMetrics":[{"Namespace":"`+Namespace+`","Dimensions":[["`+DimensionService+
		`","`+DimensionStage+`"]],"Metrics":[`...)
	for _, name := range names {
		b = append(b, `{"Name":"`+name+`","Unit":"Count"},`...)
	}
	return append(b, `{"Name":"`+StoreLatency+`","Unit":"Milliseconds"}]}]}`...)
}

// Record counts a call. It does not allocate.
func (m *Metrics) Record(c Check) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[Checks]++
	m.count(Denied, c.Denied)
	m.count(Allowed, !c.Denied)
	m.count(ShadowDenied, c.ShadowDenied)
	m.count(Degraded, c.Degraded)
	m.count(StoreErrors, c.StoreError)
	m.count(NearLimit, !c.Denied && c.Limit > 0 && c.Remaining < c.Limit/nearLimit+min(c.Limit%nearLimit, 1))
	if c.Store > 0 {
		m.measure(c.Store)
	}
}

// RecordRefused counts a call without a valid credential, which is not a check. byError
// says that the function answered with an error, which Unauthorized also counts.
func (m *Metrics) RecordRefused(byError bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[Refused]++
	m.count(Unauthorized, byError)
}

// any reports whether a call was counted since the last line.
func (m *Metrics) any() bool { return m.counts[Checks]+m.counts[Refused] > 0 }

func (m *Metrics) count(what Metric, holds bool) {
	if holds {
		m.counts[what]++
	}
}

// measure keeps a uniform sample of latencies (reservoir sampling), so that a line's
// percentiles are those of all its checks.
func (m *Metrics) measure(d time.Duration) {
	at := m.measured
	m.measured++
	m.slowest = max(m.slowest, d)
	if at >= maxLatencies {
		if at = m.random.IntN(m.measured); at >= maxLatencies {
			return
		}
	}
	m.latencies[at] = d
}

// due reports whether there are counts to write and the interval since the last line has
// passed by the wall clock.
func (m *Metrics) due(now time.Time) bool {
	passed := now.UnixNano() - m.written
	return m.any() && (passed >= int64(m.interval) || passed < 0)
}

// Tick writes a line if it is due.
func (m *Metrics) Tick() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if !m.due(now) {
		return nil
	}
	return m.write(now)
}

// Flush writes the counts since the last line even if it is not due. It is for the end of
// a program.
func (m *Metrics) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.any() {
		return nil
	}
	return m.write(m.now())
}

// write writes one line in one call. After an error the counts are lost.
func (m *Metrics) write(now time.Time) error {
	m.written = now.UnixNano()
	m.line = m.appendLine(m.line[:0], now)
	m.counts, m.measured, m.slowest = [metrics]int64{}, 0, 0
	if _, err := m.out.Write(m.line); err != nil {
		return fmt.Errorf("telemetry: write metrics: %w", err)
	}
	return nil
}

func (m *Metrics) appendLine(b []byte, now time.Time) []byte {
	b = append(b, `{"_aws":{"Timestamp":`...)
	b = strconv.AppendInt(b, now.UnixMilli(), 10)
	b = append(b, m.head...)
	b = append(b, m.identity...)
	for i, name := range names {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, m.counts[i], 10)
	}
	b = append(b, `,"`+StoreLatency+`":[`...)
	b = m.appendLatencies(b)
	return append(b, "]}\n"...)
}

// appendLatencies appends the sample, in milliseconds. The sample always contains the
// slowest latency, so that the maximum is exact.
func (m *Metrics) appendLatencies(b []byte) []byte {
	sample := m.latencies[:min(m.measured, maxLatencies)]
	if m.measured > maxLatencies {
		sample[0] = m.slowest
	}
	for i, d := range sample {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(d.Microseconds())/1000, 'f', -1, 64)
	}
	return b
}
