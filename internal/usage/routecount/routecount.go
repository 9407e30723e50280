// Package routecount encodes and reads calls by route: which routes the callers of a plan
// call, for previews of access. Package usage counts and writes them.
//
// Calls with a valid credential, allowed or denied, count by plan, API, stage, method and
// pattern of the route, in periods of 5 minutes. The store distinguishes 4,096 routes a
// period; calls of further routes count under their plan alone. All routes of a period
// are in one bucket, those of the next period in another.
//
//	tg:{tag}:usage-rPERIOD  hash  calls by Field; PERIOD counts from 1970  90 min
package routecount

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

//go:embed routecount.lua
var text string

// Script adds Counts of one period. Its key is Name, and Args returns its arguments.
var Script = lua.New(func() string { return text })

// Route is an operation that callers of a plan call. It has the pattern of a path, never
// the path itself. A Route with only a Plan stands for routes beyond a bound.
type Route struct {
	Plan               string
	API, Stage, Method string
	Path               string // pattern of the route; * for a path without a pattern
}

// Slot is a route in a period.
type Slot struct {
	Route
	Period int64
}

// Count is the calls of a route in a period.
type Count struct {
	Slot
	Calls int64
}

const (
	// Period is the length of a period.
	Period = 5 * time.Minute
	// MaxPlan is the longest name of a plan, in bytes.
	MaxPlan = 1000
	// MaxStored is the most routes of all plans that are stored for a period.
	MaxStored = 4096
	maxText   = 200 // bytes of a text other than the plan's
	buckets   = 8   // that periods rotate through
)

// PeriodOf returns the number of the period of a time, since 1970.
func PeriodOf(t time.Time) int64 { return max(t.Unix(), 0) / int64(Period/time.Second) }

// Bucket returns the bucket of a period.
func Bucket(period int64) keyspace.Bucket {
	return keyspace.Bucket(period % buckets * (keyspace.Buckets / buckets))
}

// Name returns the key of a period.
func Name(period int64) string {
	return Bucket(period).Name("usage-r" + strconv.FormatInt(period, 10))
}

// Args returns the arguments with which the Script adds counts.
func Args(counts []Count) []string {
	args := append(make([]string, 0, 1+2*len(counts)), strconv.Itoa(MaxStored))
	for _, c := range counts {
		args = append(args, c.Field(), strconv.FormatInt(c.Calls, 10))
	}
	return args
}

// Field returns the field of the hash: 2 bytes of length and the plan, then API, stage,
// method and path, each after 1 byte of length. A path over maxText is stored as *.
func (r Route) Field() string {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(r.Plan)))
	b = append(b, r.Plan...)
	if r == (Route{Plan: r.Plan}) || max(len(r.API), len(r.Stage), len(r.Method)) > maxText {
		return string(b)
	}
	path := r.Path
	if len(path) > maxText {
		path = "*"
	}
	for _, text := range []string{r.API, r.Stage, r.Method, path} {
		b = append(append(b, byte(len(text))), text...)
	}
	return string(b)
}

// parse reads a field. If what follows the plan has another form, only the plan is set.
func parse(field string) (Route, bool) {
	if len(field) < 2 {
		return Route{}, false
	}
	plan := int(binary.BigEndian.Uint16([]byte(field[:2])))
	if field = field[2:]; len(field) < plan {
		return Route{}, false
	}
	planOnly := Route{Plan: field[:plan]}
	r, field := planOnly, field[plan:]
	for _, text := range []*string{&r.API, &r.Stage, &r.Method, &r.Path} {
		if field == "" || len(field) < 1+int(field[0]) {
			return planOnly, true
		}
		*text, field = field[1:1+field[0]], field[1+field[0]:]
	}
	return r, true
}

// Read returns the calls of a plan by route, allowed and denied, in the periods that the
// time between from and to touches. Periods are kept for 90 minutes.
func Read(
	ctx context.Context, client valkey.Client, plan string, from, to time.Time,
) (map[Route]int64, error) {
	var commands valkey.Commands
	for period := PeriodOf(from); period <= PeriodOf(to.Add(-1)); period++ {
		commands = append(commands, client.B().Hgetall().Key(Name(period)).Build())
	}
	routes := map[Route]int64{}
	for _, result := range client.DoMulti(ctx, commands...) {
		counts, err := result.AsIntMap()
		if err != nil {
			return nil, fmt.Errorf("routecount: %w", err)
		}
		for field, calls := range counts {
			if route, ok := parse(field); ok && route.Plan == plan {
				routes[route] += calls
			}
		}
	}
	return routes, nil
}
