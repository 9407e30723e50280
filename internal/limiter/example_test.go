package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

// noon is the time on the server of the examples. A Program has the offsets of a zone
// only from about now on, so the examples use a zone without summer time.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// start starts an embedded server, whose clock the example sets, and connects to it.
// Programs connect to Valkey with store.Open.
func start() (*miniredis.Miniredis, valkey.Client) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	server.SetTime(noon)
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{server.Addr()},
		DisableCache: true, ForceSingleClient: true})
	if err != nil {
		log.Fatal(err)
	}
	return server, client
}

func stop(server *miniredis.Miniredis, client valkey.Client) {
	client.Close()
	server.Close()
}

// With ten calls in ten seconds, the eleventh call is denied until the first one has left
// the window.
func ExampleLimiter_Take() {
	server, client := start()
	defer stop(server, client)

	tenPerTen, err := limiter.New(client, "api:", limiter.Limit{Requests: 10, Window: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for call := range 11 {
		server.SetTime(noon.Add(time.Duration(call) * 500 * time.Millisecond))
		d, err := tenPerTen.Take(ctx, "caller", 1)
		if err != nil {
			log.Fatal(err) // no decision was made
		}
		if !d.Allowed {
			fmt.Println("denied, retry after", d.RetryAfter())
		} else if call%3 == 0 {
			fmt.Println("allowed, remaining", d.Binding().Remaining)
		}
	}
	// Output:
	// allowed, remaining 9
	// allowed, remaining 6
	// allowed, remaining 3
	// allowed, remaining 0
	// denied, retry after 5s
}

// A call may cost more than 1. A cost above the limit is an error.
func ExampleLimiter_Take_cost() {
	server, client := start()
	defer stop(server, client)

	hundredPerHour, err := limiter.New(client, "export:",
		limiter.Limit{Requests: 100, Window: time.Hour, Algorithm: limiter.TokenBucket})
	if err != nil {
		log.Fatal(err)
	}
	for _, cost := range []int64{75, 50, 101} {
		d, err := hundredPerHour.Take(context.Background(), "caller", cost)
		switch {
		case errors.Is(err, limiter.ErrCost):
			fmt.Println(err)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(d.Allowed, d.Binding().Remaining, d.RetryAfter())
		}
	}
	// Output:
	// true 25 0s
	// false 25 15m0s
	// limiter: cost out of range: 101 is above the limit of 100 per 1 hour
}

// A cost is taken from all limits or from none.
func ExampleNew_severalLimits() {
	server, client := start()
	defer stop(server, client)

	both, err := limiter.New(client, "api:",
		limiter.Limit{Requests: 2, Window: time.Second},
		limiter.Limit{Requests: 1000, Algorithm: limiter.FixedWindow, Calendar: limiter.Day,
			Zone: "Asia/Tokyo"},
	)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := both.Take(context.Background(), "caller", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed)
		for _, u := range d.Limits {
			fmt.Printf("  %s: %d remaining, empty in %s\n", u.Limit, u.Remaining, u.Reset)
		}
	}
	// Output:
	// true
	//   2 per 1 second: 1 remaining, empty in 1s
	//   1000 per calendar day: 999 remaining, empty in 3h0m0s
	// true
	//   2 per 1 second: 0 remaining, empty in 1s
	//   1000 per calendar day: 998 remaining, empty in 3h0m0s
	// false
	//   2 per 1 second: 0 remaining, empty in 1s
	//   1000 per calendar day: 998 remaining, empty in 3h0m0s
}

// Peek returns the usage and takes nothing.
func ExampleLimiter_Peek() {
	server, client := start()
	defer stop(server, client)

	l, err := limiter.New(client, "api:", limiter.Limit{Requests: 5, Window: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		d, err := l.Peek(context.Background(), "caller")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Binding().Used())
	}
	// Output:
	// true 0
	// true 0
}

// Refund gives back the cost of a call.
func ExampleLimiter_Refund() {
	server, client := start()
	defer stop(server, client)

	l, err := limiter.New(client, "api:", limiter.Limit{Requests: 5, Window: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	taken, err := l.Take(ctx, "caller", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(taken.Binding().Remaining)
	after, err := l.Refund(ctx, "caller", 3, taken)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(after.Binding().Remaining)
	// Output:
	// 2
	// 5
}

// A Model makes the decisions of a Limiter without a server, at any instant. Here a fixed
// window admits a burst on each side of its boundary, and a log does not.
func ExampleModel() {
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.Log} {
		var subject limiter.Model
		limits := []limiter.Limit{{Requests: 100, Window: time.Minute, Algorithm: algorithm}}
		admitted := 0
		for _, burst := range []time.Duration{-time.Second, time.Second} {
			for range 100 {
				d, err := subject.Take(noon.Add(burst), limits, 1)
				if err != nil {
					log.Fatal(err)
				}
				if d.Allowed {
					admitted++
				}
			}
		}
		fmt.Printf("%s: %d in two seconds\n", algorithm, admitted)
	}
	// Output:
	// fixed-window: 200 in two seconds
	// log: 100 in two seconds
}

// An edit of the limit keeps the count.
func ExampleModel_Take_edit() {
	var subject limiter.Model
	for _, requests := range []int64{10, 3, 6} {
		d, err := subject.Take(noon, []limiter.Limit{{Requests: requests, Window: time.Minute}}, 2)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("of %d: allowed %t, remaining %d\n", requests, d.Allowed, d.Binding().Remaining)
	}
	// Output:
	// of 10: allowed true, remaining 8
	// of 3: allowed false, remaining 1
	// of 6: allowed true, remaining 2
}
