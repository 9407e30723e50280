//go:build unix

// Command load calls a gateway at a rate that does not depend on its answers. It measures
// latency from the time at which each call was due, and checks by the answers that no
// rolling window admitted more than its limit. scripts/load describes the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	scenario string
	rate     float64 // calls a second
	duration time.Duration
	target   string
	keys     []string
	run      string // the script that starts a gateway
}

const (
	timeout    = 10 * time.Second // of a call
	maxRate    = 1_000_000
	maxWorkers = 256
	// localWorkers is the number of environments of a local gateway, which refuses calls
	// beyond.
	localWorkers = 50
)

func parseOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints errors itself
	f.StringVar(&o.scenario, "scenario", "steady", "")
	f.Float64Var(&o.rate, "rate", 200, "")
	f.DurationVar(&o.duration, "duration", 30*time.Second, "")
	f.StringVar(&o.target, "target", "", "")
	f.StringVar(&o.run, "run", "scripts/run", "")
	f.Func("key", "", func(key string) error {
		o.keys = append(o.keys, key)
		return nil
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	u, err := url.Parse(o.target)
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("argument %q is not a flag", f.Arg(0))
	case scenarios[o.scenario] == nil:
		return o, fmt.Errorf("-scenario %s: must be steady, hot, cold, denied or boundary", o.scenario)
	case !(o.rate > 0 && o.rate <= maxRate): // also if it is not a number
		return o, fmt.Errorf("-rate %g: must be above 0 and at most %d a second", o.rate, maxRate)
	case o.duration < time.Second:
		return o, fmt.Errorf("-duration %s: must be at least 1s", o.duration)
	case err != nil, o.target != "" && u.Host == "":
		return o, errors.New("-target: must be a URL such as https://api.example.com/prod/orders")
	case (o.target == "") != (len(o.keys) == 0):
		return o, errors.New("-target and -key need each other; without them a gateway is started, with keys")
	}
	return o, nil
}

// run returns the exit status. The gateway also writes to errOut.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parseOptions(args)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "load: %v (-h shows all flags)\n", err)
		return 2
	}
	good, err := measure(ctx, o, out, errOut)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "load: %v\n", err)
	}
	if !good {
		return 1
	}
	return 0
}

// load is the calls of a scenario.
type load struct {
	options
	population
	url     string
	callers []caller
	workers uint64
	began   time.Time
	made    []call
	due     vegeta.LatencyMetrics // from when calls were due
	sent    vegeta.LatencyMetrics // from when calls were sent
	codes   map[uint16]int        // 0 for no answer
}

func measure(ctx context.Context, o options, out, errOut io.Writer) (good bool, err error) {
	l := &load{options: o, url: o.target, workers: maxWorkers, codes: map[uint16]int{}, began: time.Now()}
	l.population = scenarios[o.scenario](o.rate, o.duration)
	if o.target != "" {
		err = l.probe(ctx)
	} else {
		var gateway *localGateway
		if gateway, err = startLocalGateway(ctx, o.run, errOut); err != nil {
			return false, err
		}
		defer gateway.Close()
		l.url, l.workers = gateway.REST+"/orders", localWorkers
		l.callers, err = gateway.populate(ctx, l.population)
	}
	if err != nil {
		return false, err
	}
	when, err := l.schedule(o.rate, l.callers)
	if err != nil {
		return false, err
	}
	l.attack(ctx, when, errOut)
	return l.report(out, when, ctx.Err() != nil), nil
}

// attack makes the calls, and shows the progress.
func (l *load) attack(ctx context.Context, when schedule, progress io.Writer) {
	attacker := vegeta.NewAttacker(vegeta.Timeout(timeout), vegeta.Redirects(vegeta.NoFollow),
		vegeta.MaxWorkers(l.workers), vegeta.MaxBody(maxBody))
	context.AfterFunc(ctx, func() { attacker.Stop() })
	pick, calls := l.pick(len(l.callers)), atomic.Int64{}
	targeter := func(t *vegeta.Target) error {
		*t = l.targetOf(pick(calls.Add(1) - 1))
		return nil
	}
	var began time.Time
	pace := pacer(func(elapsed time.Duration, hits uint64) (time.Duration, bool) {
		if hits == 0 {
			began = time.Now().Add(-elapsed)
		}
		due := when(int64(hits))
		return due - elapsed, due >= l.duration || ctx.Err() != nil
	})
	shown := time.Now()
	for r := range attacker.Attack(targeter, pace, l.duration+timeout, "") {
		l.add(r)
		l.sent.Add(r.Latency)
		l.due.Add(r.End().Sub(began.Add(when(int64(r.Seq)))))
		if time.Since(shown) > 5*time.Second {
			shown = time.Now()
			_, _ = fmt.Fprintf(progress, "load: %s, %d calls, statuses %v, p99 %s\n",
				time.Since(began).Round(time.Second), len(l.made), l.codes, round(l.due.Quantile(.99)))
		}
	}
}

// pacer says how long the attacker waits before the next call, and when it ends.
type pacer func(elapsed time.Duration, hits uint64) (wait time.Duration, stop bool)

// Pace implements vegeta.Pacer.
func (p pacer) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	return p(elapsed, hits)
}

// Rate implements vegeta.Pacer. Nothing asks for it.
func (p pacer) Rate(time.Duration) float64 { return 0 }

// targetOf returns a call of a caller. The fragment of its URL is not sent.
func (l *load) targetOf(caller int) vegeta.Target {
	return vegeta.Target{Method: "GET", URL: l.url + "#" + strconv.Itoa(caller),
		Header: map[string][]string{"X-Api-Key": {l.callers[caller].credential}}}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// report prints the result. It returns whether all answers were as expected and no window
// was above its limit.
func (l *load) report(out io.Writer, when schedule, interrupted bool) (good bool) {
	unsent, stopped := 0, ", interrupted"
	if !interrupted {
		stopped = ""
		most := int(l.rate*l.duration.Seconds()) + 2
		due := sort.Search(most, func(n int) bool { return when(int64(n)) >= l.duration })
		unsent = max(0, due+len(l.keys)-len(l.made)) // probe made a call with each key
	}
	unexpected := 0
	for _, c := range l.made {
		if !l.callers[c.caller].expects(c.kind) {
			unexpected++
		}
	}
	_, _ = fmt.Fprintf(out,
		"\n%s: %g calls a second for %s%s; %d calls, statuses %v, %d never sent, %d unexpected\n",
		l.scenario, l.rate, l.duration, stopped, len(l.made), l.codes, unsent, unexpected)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "\nlatency\tp50\tp90\tp99\tp99.9\tmax\t")
	for _, m := range []struct {
		name string
		vegeta.LatencyMetrics
	}{{"from when due", l.due}, {"from when sent", l.sent}} {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", m.name, round(m.Quantile(.5)),
			round(m.Quantile(.9)), round(m.Quantile(.99)), round(m.Quantile(.999)), round(m.Max))
	}
	p := prove(l.callers, l.made)
	p.print(t)
	_ = t.Flush()
	_, _ = fmt.Fprintf(out, "\n%s\n", p.verdict())
	return unexpected == 0 && p.holds()
}
