//go:build unix

package attacks

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// callLimit bounds every request of the suite.
const callLimit = time.Minute

type handler = http.Handler

// target is a gateway or the dashboard, as clients on the internet reach it.
type target struct {
	url     string
	handler handler
}

// reply is the response to a request of the suite.
type reply struct {
	status int
	header http.Header
	body   string
}

// client follows no redirect and decompresses nothing.
var client = &http.Client{
	Timeout:       callLimit,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
}

// send makes a request; header holds names and values in turn.
func (to target) send(t testing.TB, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, to.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Add(header[n], header[n+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	return read(t, response)
}

func read(t testing.TB, response *http.Response) reply {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text)}
}

func (to target) get(t testing.TB, path string, header ...string) reply {
	t.Helper()
	return to.send(t, http.MethodGet, path, "", header...)
}

// from makes a request from a client address that the test chooses. It calls the handler
// without a connection.
func (to target) from(t testing.TB, address, method, path, body string, header ...string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = net.JoinHostPort(address, "40000")
	for n := 0; n < len(header); n += 2 {
		r.Header.Add(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	to.handler.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// raw sends the bytes of a request as they are, including requests that no client library
// would send.
func (to target) raw(t testing.TB, request string) reply {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(to.url, "http://"), callLimit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(callLimit))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.200q: %v", request, err)
	}
	defer func() { _ = response.Body.Close() }()
	return read(t, response)
}

// remaining returns r, the remaining quota, of the first RateLimit item whose name begins
// with name.
func (r reply) remaining(t testing.TB, name string) int64 {
	t.Helper()
	item := regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `[^"]*";r=(\d+)`)
	found := item.FindStringSubmatch(r.header.Get("RateLimit"))
	if found == nil {
		t.Fatalf("%d, no limit %q in %q", r.status, name, r.header.Get("RateLimit"))
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// output collects the logs of all functions and gateways.
type output struct{ waiting.Buffer }

// tail returns the last 4,000 bytes of the log.
func (o *output) tail() string {
	text := o.String()
	return text[max(0, len(text)-4000):]
}
