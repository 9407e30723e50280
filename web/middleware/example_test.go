package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"tidegate/web/middleware"
)

// A backend behind an HTTP API, whose parameter mapping puts the authorizer context into
// headers.
func Example() {
	limits := middleware.Middleware{Source: middleware.Headers("X-Tidegate-")}
	backend := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, _ := middleware.FromContext(r.Context())
		_, _ = fmt.Fprintf(w, "hello %s", caller.KeyName)
	}))

	for _, denied := range []string{"false", "true"} {
		r := httptest.NewRequest(http.MethodGet, "/hello", http.NoBody)
		r.Header.Set("X-Tidegate-denied", denied)
		r.Header.Set("X-Tidegate-keyName", "orders")
		r.Header.Set("X-Tidegate-rateLimit", `"10 per 10 seconds";r=0;t=4`)
		r.Header.Set("X-Tidegate-retryAfter", "4")
		r.Header.Set("X-Tidegate-message", "Wait 4 seconds.")
		w := httptest.NewRecorder()
		backend.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"), w.Body)
	}
	// Output:
	// 200 "10 per 10 seconds";r=0;t=4  hello orders
	// 429 "10 per 10 seconds";r=0;t=4 4 {"type":"about:blank","title":"Too Many Requests","status":429,"detail":"Wait 4 seconds."}
}
