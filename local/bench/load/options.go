//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/local/lambda"
)

// options are the flags.
type options struct {
	scenario     scenario
	target       string
	keys         texts
	limits       []limiter.Limit
	api          string
	rate         float64 // calls a second
	duration     time.Duration
	workers      int
	timeout      time.Duration
	environments int
	noFreeze     bool
	seed         uint64
	json         string
	bin          string
}

// texts is a flag that can be repeated.
type texts []string

// String returns "", since the values are API keys.
func (t *texts) String() string { return "" }

func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

const (
	maxRate         = 1_000_000
	maxDuration     = 24 * time.Hour
	maxWorkers      = 10_000
	maxEnvironments = 1_000
	maxTimeout      = time.Minute
)

// raw has the text of flags that parseOptions parses itself.
type raw struct{ scenario, limit string }

// flags returns the flags. The head of scripts/load describes them.
func (o *options) flags(r *raw) *flag.FlagSet {
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints errors itself
	f.StringVar(&r.scenario, "scenario", "steady", "")
	f.Float64Var(&o.rate, "rate", 200, "")
	f.DurationVar(&o.duration, "duration", 30*time.Second, "")
	f.StringVar(&o.json, "json", "", "")
	f.StringVar(&o.target, "target", "", "")
	f.Var(&o.keys, "key", "")
	f.StringVar(&r.limit, "limit", "", "")
	f.StringVar(&o.api, "api", "rest", "")
	f.IntVar(&o.workers, "in-flight", 256, "")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "")
	f.IntVar(&o.environments, "environments", 50, "")
	f.BoolVar(&o.noFreeze, "no-freeze", false, "")
	f.Uint64Var(&o.seed, "seed", 1, "")
	f.StringVar(&o.bin, "bin", lambda.BinFolder(), "")
	return f
}

func parseOptions(args []string) (options, error) {
	var o options
	var r raw
	f := o.flags(&r)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("argument %q is not a flag", f.Arg(0))
	}
	var err error
	if o.scenario, err = findScenario(r.scenario); err != nil {
		return o, err
	}
	if o.limits, err = parseLimits(r.limit); err != nil {
		return o, fmt.Errorf("-limit %s: %w", r.limit, err)
	}
	return o, errors.Join(o.validate(), o.validateTarget(), o.validateFile())
}

func (o *options) validate() error {
	switch {
	case !(o.rate > 0 && o.rate <= maxRate): // also if it is not a number
		return fmt.Errorf("-rate %g: must be above 0 and at most %d a second", o.rate, maxRate)
	case o.duration < time.Second || o.duration > maxDuration:
		return fmt.Errorf("-duration %s: must be 1s to %s", o.duration, maxDuration)
	case o.workers < 1 || o.workers > maxWorkers:
		return fmt.Errorf("-in-flight %d: must be 1 to %d", o.workers, maxWorkers)
	case o.timeout < 10*time.Millisecond || o.timeout > maxTimeout:
		return fmt.Errorf("-timeout %s: must be 10ms to %s", o.timeout, maxTimeout)
	case o.environments < 1 || o.environments > maxEnvironments:
		return fmt.Errorf("-environments %d: must be 1 to %d", o.environments, maxEnvironments)
	case o.api != "rest" && o.api != "http":
		return fmt.Errorf("-api %s: must be rest or http", o.api)
	}
	return nil
}

func (o *options) validateTarget() error {
	if o.target == "" {
		switch {
		case len(o.keys) > 0:
			return errors.New("-key: needs -target; keys are created in a local gateway")
		case len(o.limits) > 0:
			return errors.New("-limit: needs -target")
		}
		o.workers = min(o.workers, o.environments) // the gateway throttles calls beyond
		for _, name := range []string{"local", "check/bootstrap", "admin/bootstrap"} {
			if _, err := os.Stat(filepath.Join(o.bin, name)); err != nil {
				return fmt.Errorf("-bin %s: %s is missing: ./scripts/load builds it", o.bin, name)
			}
		}
		return nil
	}
	u, err := url.Parse(o.target)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("-target: must be a URL such as https://api.example.com/prod/orders")
	case len(o.keys) == 0:
		return errors.New("-target: needs -key, an API key of the target")
	}
	return nil
}

func (o *options) validateFile() error {
	if o.json == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(o.json)); err != nil || !info.IsDir() {
		return fmt.Errorf("-json %s: its folder does not exist", o.json)
	}
	return nil
}

// parseLimits parses limits such as 100/10s,1000/10m.
func parseLimits(text string) ([]limiter.Limit, error) {
	if text == "" {
		return nil, nil
	}
	var limits []limiter.Limit
	for part := range strings.SplitSeq(text, ",") {
		requests, window, _ := strings.Cut(strings.TrimSpace(part), "/")
		n, err := strconv.ParseInt(requests, 10, 64)
		if err != nil {
			return nil, errors.New("must be limits such as 100/10s,1000/10m")
		}
		span, err := limiter.ParseWindow(window)
		if err != nil {
			return nil, err
		}
		limits = append(limits, per(n, span))
	}
	return limits, limiter.ValidateAll(limits)
}
