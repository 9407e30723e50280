package middleware_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/akrylysov/algnhsa"

	"tidegate/web/middleware"
)

// A backend behind an HTTP API whose parameter mapping copies the authorizer context to
// headers.
func Example() {
	limits := middleware.Middleware{Source: middleware.Headers("X-Tidegate-",
		"denied", "keyName", "rateLimit", "retryAfter", "message")}
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
	// 429 "10 per 10 seconds";r=0;t=4 4 {"type":"about:blank","title":"Too Many Requests","status":429,"detail":"Wait 4 seconds.","message":"Wait 4 seconds."}
}

// A backend behind the AWS Lambda Web Adapter that settles the actual cost of a call.
func ExampleSettle() {
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s %s\n", r.Method, r.URL.Path, body)
		_, _ = io.WriteString(w, `{"reserved":4000,"actual":500}`)
	}))
	defer dashboard.Close()

	limits := middleware.Middleware{
		Source:  middleware.WebAdapter,
		Settler: &middleware.Settler{URL: "https://tidegate.example/prod", Token: os.Getenv("SETTLE_TOKEN")},
	}
	handler := limits.Wrap(http.HandlerFunc(chat)) // adds the fields, answers 429

	limits.Settler.URL, limits.Settler.Token = dashboard.URL, "machine"
	r := httptest.NewRequest(http.MethodPost, "/chat", http.NoBody)
	r.Header.Set("X-Amzn-Request-Context",
		`{"authorizer":{"lambda":{"denied":false,"keyName":"orders","settlement":"tgr_x"}}}`)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// POST /api/v1/settlements {"cost":500,"settlement":"tgr_x"}
	// 200 hello orders
}

func chat(w http.ResponseWriter, r *http.Request) {
	caller, _ := middleware.FromContext(r.Context())
	tokensUsed := complete(w, caller.KeyName)
	if _, err := middleware.Settle(r.Context(), tokensUsed); err != nil { // 0 gives all of it back
		slog.WarnContext(r.Context(), "the estimated cost stays charged", "cause", err)
	}
}

func complete(w io.Writer, name string) (tokensUsed int64) {
	_, _ = fmt.Fprintf(w, "hello %s", name)
	return 500
}

// ofEvent takes the decision from the event that algnhsa puts into the request's context.
func ofEvent(r *http.Request) map[string]any {
	event, _ := algnhsa.APIGatewayV2RequestFromContext(r.Context())
	if a := event.RequestContext.Authorizer; a != nil {
		return a.Lambda
	}
	return nil
}

// Behind an adapter that passes the event in the request's context, a decision that the
// client sends in a header is not believed, whether the call has one or not.
func TestForgedDecisions(t *testing.T) {
	limits := middleware.Middleware{Source: ofEvent, Log: slog.New(slog.DiscardHandler)}
	handler := algnhsa.New(limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})), nil)
	const forged = `{"authorizer":{"lambda":{"denied":"false"}}}`
	for authorizer, want := range map[string]int{
		`{"lambda":{"denied":true,"retryAfter":"4"}}`: http.StatusTooManyRequests,
		`{"lambda":{"denied":false}}`:                 http.StatusOK,
		`{"lambda":{}}`:                               http.StatusInternalServerError,
		`null`:                                        http.StatusInternalServerError,
	} {
		event := fmt.Sprintf(`{"version":"2.0","rawPath":"/hello","headers":{"x-amzn-request-context":%q,
			"x-golambdaproxy-apigw-context":%q,"x-tidegate-denied":"false"},
			"requestContext":{"domainName":"api.example","http":{"method":"GET","path":"/hello"},
			"authorizer":%s}}`, forged, forged, authorizer)
		answer, err := handler.Invoke(t.Context(), []byte(event))
		if err != nil || !strings.Contains(string(answer), fmt.Sprintf(`"statusCode":%d`, want)) {
			t.Errorf("%s: got %s, %v, want %d", authorizer, answer, err, want)
		}
	}
}

// The Go code of docs/backends.md is part of the tests in these two files.
func TestDocumentedCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	var tested string
	for _, file := range []string{"example_test.go", "../../local/inflight_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tested += dedented(string(text))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) != 4 {
		t.Fatalf("got %d blocks of Go in docs/backends.md, want 4", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(tested, dedented(block)) {
			t.Errorf("no test contains the documented code\n%s", block)
		}
	}
}

func dedented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
