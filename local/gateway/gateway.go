// Package gateway emulates Amazon API Gateway in front of Lambda functions. REST is a
// REST API and HTTP is an HTTP API, each with a Lambda authorizer and a Lambda proxy
// integration. Every path and method belongs to one resource: {proxy+} on a REST API,
// $default on an HTTP API.
//
// The rules are those of Amazon's developer guide. Comments mark a rule as "unconfirmed"
// if the guide does not specify it. Two things differ because of net/http. Header names
// arrive in canonical form, and X-Forwarded-Proto is http when no TLS is in use.
//
// Not emulated: several resources or routes; usage plans, throttles and caches; identity
// sources, stage variables and binary media types. A policy with elements other than
// Effect, Action and Resource is answered with 500.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Invoker runs a function with a JSON event and returns its JSON answer. An error that
// the function itself reported is a *lambda.FunctionError.
type Invoker interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// Limits of API Gateway.
const (
	maxBody     = 10 << 20 // bytes of a request's body
	maxHeaders  = 10_240   // bytes of all header values; on an HTTP API of the request line too
	maxResult   = 8 << 10  // bytes of a REST authorizer's answer
	maxARN      = 1600     // bytes of a method ARN that an authorizer gets; beyond it the answer is 414
	maxResource = 512      // characters of a resource in a policy
)

// Identity of the APIs: the region and account of AWS's own examples.
const (
	region  = "us-east-1"
	account = "123456789012"
)

// timeLayout is the form of requestTime and time in events.
const timeLayout = "02/Jan/2006:15:04:05 -0700"

// call invokes fn with an event, for at most limit. A client that disconnects does not
// cancel it, as on API Gateway.
func call(ctx context.Context, fn Invoker, limit time.Duration, event any) ([]byte, error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode the event: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return fn.Invoke(ctx, payload)
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

func clock(now func() time.Time) time.Time {
	if now == nil {
		return time.Now().UTC()
	}
	return now().UTC()
}

// dropHopByHop removes the headers of a single connection (RFC 9110, section 7.6.1).
func dropHopByHop(h http.Header) {
	for _, field := range h.Values("Connection") {
		for name := range strings.SplitSeq(field, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// validHeader reports whether a field can be sent: the name is a token and the value has
// no control characters (RFC 9110, section 5).
func validHeader(name, value string) bool {
	return name != "" && strings.IndexFunc(name, notToken) < 0 && strings.IndexFunc(value, isControl) < 0
}

func notToken(r rune) bool {
	letterOrDigit := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// spelling has header names whose usual form is not the canonical one of net/http.
var spelling = map[string]string{
	"Apigw-Requestid":  "apigw-requestid",
	"Ratelimit":        "RateLimit",
	"Ratelimit-Policy": "RateLimit-Policy",
	"Www-Authenticate": "WWW-Authenticate",
	"X-Amz-Apigw-Id":   "x-amz-apigw-id",
	"X-Amzn-Errortype": "x-amzn-ErrorType",
	"X-Amzn-Requestid": "x-amzn-RequestId",
}

func write(w http.ResponseWriter, status int, header http.Header, body []byte) {
	h := w.Header()
	h["Content-Type"] = nil // else net/http guesses one when there is none
	for name, values := range header {
		h[cmp.Or(spelling[name], name)] = values
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only after the client disconnected
}
