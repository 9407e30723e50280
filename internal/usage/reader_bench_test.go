package usage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

const (
	knownSubjects  = 1_000_000
	activeSubjects = 100_000
)

// BenchmarkReader measures the dashboard's reads, with 1,000,000 known subjects. Of
// these, 100,000 were active in each of the last 8 hours and at midnight. The totals have
// every minute of the last day and every hour of the last month:
//
//	go test ./internal/usage -run '^$' -bench Reader -benchtime 20x
func BenchmarkReader(b *testing.B) {
	client := connect(b, valkeytest.Start(b))
	seed(b, client)
	read, ctx, to := NewReader(client), b.Context(), noon.Add(time.Hour)
	page, err := read.Active(ctx, "", 50)
	if err != nil || len(page.Subjects) != 50 {
		b.Fatalf("%d subjects, %v", len(page.Subjects), err)
	}
	ids := make([]string, len(page.Subjects))
	for i, s := range page.Subjects {
		ids[i] = s.ID
	}
	rank := func(span, step time.Duration) error {
		return second(read.Rank(ctx, to.Add(-span), to, step, 10, Busiest, MostDenied))
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Overview/1h-by-minute", func() error {
			return second(read.Overview(ctx, to.Add(-time.Hour), to, time.Minute))
		}},
		{"Overview/24h-by-minute", func() error {
			return second(read.Overview(ctx, to.Add(-24*time.Hour), to, time.Minute))
		}},
		{"Overview/30d-by-hour", func() error {
			return second(read.Overview(ctx, to.Add(-30*24*time.Hour), to, time.Hour))
		}},
		{"Series/24h-by-minute", func() error {
			return second(read.Series(ctx, ids[0], to.Add(-24*time.Hour), to, time.Minute))
		}},
		{"Sparklines/50-of-1h", func() error {
			return second(read.Sparklines(ctx, ids, to.Add(-time.Hour), to, time.Minute))
		}},
		{"Sparklines/50-of-24h-by-hour", func() error {
			return second(read.Sparklines(ctx, ids, to.Add(-24*time.Hour), to, time.Hour))
		}},
		{"Active/first-50", func() error { return second(read.Active(ctx, "", 50)) }},
		{"Active/next-50", func() error { return second(read.Active(ctx, page.Next, 50)) }},
		{"Active/first-500", func() error { return second(read.Active(ctx, "", 500)) }},
		{"ActiveCount", func() error { return second(read.ActiveCount(ctx, to.Add(-time.Hour), to)) }},
		{"Rank/10-of-1h", func() error { return rank(time.Hour, time.Minute) }},
		{"Rank/10-of-6h", func() error { return rank(6*time.Hour, time.Minute) }},
		{"Rank/10-of-24h", func() error { return rank(24*time.Hour, 15*time.Minute) }},
		{"Rank/10-of-7d", func() error { return rank(7*24*time.Hour, time.Hour) }},
		{"Calls/1h", func() error { return second(read.Calls(ctx, ids[0], to.Add(-time.Hour), to)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.call(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/call")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("flush/1000-of-100000,first-in-their-minute", func(b *testing.B) {
		benchmarkFull(b, client, activeSubjects)
	})
	b.Run("flush/1000-again-and-again", func(b *testing.B) { benchmarkFull(b, client, 1000) })
}

func second[T any](_ T, err error) error { return err }

// benchmarkFull measures the server's time for Batches of 1,000 calls by this number of
// subjects, with full lists.
func benchmarkFull(b *testing.B, client valkey.Client, subjects int) {
	r, random := recorderAt(noon), rand.New(rand.NewPCG(1, 1))
	before := scriptMicros(b, client)
	for b.Loop() {
		for i := range 1000 {
			o := Outcome{Subject: id(i), Registered: true, Time: noon.Add(59 * time.Minute)}
			if subjects > 1000 {
				o.Subject = id(random.IntN(subjects))
			}
			r.Record(o)
		}
		flush(b, r, client)
	}
	b.ReportMetric((scriptMicros(b, client)-before)/float64(b.N)/1000, "server-µs/subject")
	b.ReportMetric(0, "ns/op")
}

func seed(b *testing.B, client valkey.Client) {
	b.Helper()
	for from := 0; from < knownSubjects; from += 10_000 {
		commands := make(valkey.Commands, 10_000)
		for i := range commands {
			commands[i] = client.B().Set().Key(keyspace.Record(fmt.Sprint("known", from+i))).Value(
				"a record of a key").Build()
		}
		for _, result := range client.DoMulti(b.Context(), commands...) {
			if err := result.Error(); err != nil {
				b.Fatal(err)
			}
		}
	}
	r := recorderAt(noon)
	send := func() {
		if report := r.Flush(context.WithoutCancel(b.Context()), client); report.Err != nil ||
			report.Lost+report.Returned > 0 {
			b.Fatalf("%+v", report)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, hour := range []int{-12, -7, -6, -5, -4, -3, -2, -1, 0} {
		for i := range activeSubjects {
			at := noon.Add(time.Duration(hour)*time.Hour + time.Duration(random.IntN(60))*time.Minute)
			for range 1 + i%3 {
				r.Record(Outcome{Subject: id(i), Registered: true,
					Verdict: Verdict(random.IntN(2)), Time: at})
			}
			if i%maxMinutes == 0 { // the Recorder counts maxMinutes minutes of totals separately
				send()
			}
		}
	}
	seedTotals(send, r)
}

func seedTotals(send func(), r *Recorder) {
	for minute := range minutesPerDay {
		for range totalBuckets {
			for verdict := range Verdict(16) {
				r.Record(Outcome{Verdict: verdict,
					Time: noon.Add(time.Hour - time.Duration(minute+1)*time.Minute)})
			}
			send()
		}
	}
	for hour := range 30 * hoursPerDay {
		r.Record(Outcome{Time: noon.Add(-time.Duration(hour) * time.Hour)})
		send()
	}
}
