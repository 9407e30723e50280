package enforce

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// serverTime returns the processor time that the server has spent.
func serverTime(b *testing.B, url string) time.Duration {
	b.Helper()
	sum := 0.0
	for line := range strings.SplitSeq(valkeytest.Ask(b, url, "INFO", "cpu"), "\n") {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += v
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// hostile is a kind of call that may cost others more than its own limits say.
type hostile struct {
	name   string
	limits []string // of the plan
	policy []string
	routes int // routes besides
	plans  int // plans besides
	fill   int // calls before
	// call returns the request of a call by its number.
	call func(i int) string
}

func same(request string) func(int) string { return func(int) string { return request } }

var sixteen = func() (texts []string) {
	for i := range 14 {
		texts = append(texts, fmt.Sprintf("100,000 per hour, except GET /none%d", i))
	}
	return append(texts, "100,000 per hour", "100,000 calls per hour")
}()

var hostiles = []hostile{
	{name: "plain", limits: []string{"100 per hour"}, call: same("GET /x")},
	{name: "denied", limits: []string{"100 per hour"}, fill: 110, call: same("GET /x")},
	{name: "denied together", limits: []string{"1,000,000 per hour"},
		policy: []string{"100 per hour, together"},
		fill:   110, call: same("GET /x")},
	{name: "10,000", limits: []string{"10,000 per hour"}, fill: 5_000, call: same("GET /x")},
	{name: "1,000,000", limits: []string{"1,000,000 per day"}, fill: 20_000, call: same("GET /x")},
	{name: "sixteen counts", limits: sixteen, call: same("GET /x")},
	{name: "group and together", limits: []string{"100,000 per hour", "100,000 per hour, each group",
		"100,000 per hour, together"}, call: same("GET /x")},
	{name: "new values", limits: []string{"100,000 per hour, on GET /items/{item}, each caller and {item}"},
		call: func(i int) string { return fmt.Sprintf("GET /items/%d", i) }},
	{name: "100 plans", limits: []string{"100,000 per hour"}, plans: 100, call: same("GET /x")},
	{name: "500 routes", limits: []string{"100,000 per hour"}, routes: 400, call: same("GET /r/7/y/z")},
	{name: "path of 8 kB", limits: []string{"100,000 per hour"}, routes: 20,
		call: same("GET /" + strings.Repeat("a%20", 2_000))},
}

// What calls cost the server and the environment, in turns with the plainest call.
func BenchmarkHostileCalls(b *testing.B) {
	url := valkeytest.Start(b)
	for _, h := range hostiles {
		b.Run(h.name, func(b *testing.B) {
			w := newWorld(b, url)
			w.save(func(s *policy.Set) {
				s.Plans = []policy.Plan{{Name: "free", Limits: parseAll(b, h.limits)},
					{Name: "plain", Limits: parseAll(b, []string{"1,000,000 per hour"})}}
				for i := range h.plans {
					s.Plans = append(s.Plans, policy.Plan{Name: fmt.Sprint("plan ", i),
						Limits: parseAll(b, h.limits)})
				}
				s.Limits = parseAll(b, h.policy)
				for i := range h.routes {
					s.Routes = append(s.Routes, limits.Route{Name: fmt.Sprint("r", i),
						Match: patternsOf(b, fmt.Sprintf("GET /r/{a}/y%d", i), fmt.Sprintf("/r/{a}/{b}/z%d",
							i))})
				}
			})
			w.key("one", "free", func(k *policy.Key) { k.Group = "acme" })
			w.key("plain", "plain")
			for i := range h.fill {
				w.check("one", h.call(i))
			}
			i := h.fill
			turn := func(name string, request func() string) (server, environment time.Duration) {
				const calls = 50
				requests := make([]Call, calls)
				for j := range requests {
					requests[j] = w.callOf(name, request())
				}
				server, began := serverTime(b, url), time.Now()
				for _, call := range requests {
					_, _ = w.Check(b.Context(), call)
				}
				environment = time.Since(began)
				return serverTime(b, url) - server, environment
			}
			next := func() string { i++; return h.call(i) }
			turn("one", next)
			turn("plain", func() string { return "GET /x" })
			var of, plain, took, plainTook time.Duration
			for b.Loop() {
				s, e := turn("one", next)
				p, q := turn("plain", func() string { return "GET /x" })
				of, plain, took, plainTook = of+s, plain+p, took+e, plainTook+q
			}
			b.ReportMetric(float64(of)/float64(plain), "server/plain")
			b.ReportMetric(float64(took)/float64(plainTook), "check/plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}
